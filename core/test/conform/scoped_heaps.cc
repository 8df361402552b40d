// Heaps of granary/heap.h, clause by clause: a reference model of random calls, caps, figures,
// destruction with live objects, threads that share one heap, forks, and the std::pmr resource.
#include <granary/granary.h>
#include <granary/heap.h>
#include <granary/memory_resource.h>
#include <granary/stats.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "child.h"
#include "resident.h"

#pragma weak granary_heap_create
#pragma weak granary_heap_destroy
#pragma weak granary_heap_reset
#pragma weak granary_heap_malloc
#pragma weak granary_heap_calloc
#pragma weak granary_heap_aligned_alloc
#pragma weak granary_heap_realloc
#pragma weak granary_heap_free
#pragma weak granary_heap_of
#pragma weak granary_heap_set_cap
#pragma weak granary_heap_name
#pragma weak granary_heap_purge
#pragma weak granary_heap_measure
#pragma weak granary_stat
#pragma weak granary_good_size

namespace {

granary_heap_figures Figures(granary_heap* heap) {
  granary_heap_figures f{};
  granary_heap_measure(heap, &f, sizeof f);
  return f;
}

uint64_t Stat(const char* name) {
  uint64_t value = 0;
  CHECK(granary_stat(name, &value) == 0);
  return value;
}

// ---- a model of the expected content, over random calls ----

struct Block {
  size_t size;
  uint64_t seed;
};

class Model {
 public:
  Model(granary_heap* heap, uint64_t seed) : heap_(heap), random_(seed) {}

  void Step() {
    const uint64_t what = NextRandom(&random_) % 10;
    if (blocks_.empty() || what < 5) return Allocate();
    auto at = blocks_.lower_bound(reinterpret_cast<char*>(NextRandom(&random_) >> 17));
    if (at == blocks_.end()) at = blocks_.begin();
    CHECK(PatternHolds(at->first, at->second.size, at->second.seed));
    what < 7 ? Reallocate(at->first, at->second) : Free(at->first);
  }
  void CheckFigures() {
    size_t live = 0;
    for (const auto& [p, block] : blocks_) {
      CHECK(PatternHolds(p, block.size, block.seed));
      live += malloc_usable_size(p);
    }
    const granary_heap_figures f = Figures(heap_);
    CHECK(f.live == live && f.objects == blocks_.size() && f.held >= live);
  }
  void FreeAll() {
    while (!blocks_.empty()) Free(blocks_.begin()->first);
  }

 private:
  size_t Size() {
    const uint64_t bits = NextRandom(&random_);
    return RandomSize(&random_, bits % 50 == 0 ? 22 : 14);
  }
  void Keep(char* p, size_t size) {
    CHECK(granary_heap_of(p) == heap_ && malloc_usable_size(p) >= size);
    const uint64_t seed = NextRandom(&random_);
    FillPattern(p, size, seed);
    const auto after = blocks_.lower_bound(p);
    CHECK(after == blocks_.end() || p + malloc_usable_size(p) <= after->first);
    if (after != blocks_.begin()) {
      const auto before = std::prev(after);
      CHECK(before->first + malloc_usable_size(before->first) <= p);
    }
    blocks_[p] = {size, seed};
  }
  void Allocate() {
    const size_t size = Size();
    const uint64_t how = NextRandom(&random_) % 3;
    const size_t alignment = how == 0 ? size_t{1} << NextRandom(&random_) % 15 : 1;
    void* const p = how == 0   ? granary_heap_aligned_alloc(heap_, alignment, size)
                    : how == 1 ? granary_heap_calloc(heap_, 1, size)
                               : granary_heap_malloc(heap_, size);
    CHECK(p != nullptr && IsAligned(p, alignment) && IsAligned(p, PromisedAlignment(size)));
    CHECK(how != 1 || AllZero(p, size));
    Keep(static_cast<char*>(p), size);
  }
  void Reallocate(char* p, Block block) {
    const size_t size = Size() + 1;
    blocks_.erase(p);
    char* const q = static_cast<char*>(
        NextRandom(&random_) % 2 == 0 ? realloc(p, size) : granary_heap_realloc(heap_, p, size));
    CHECK(q != nullptr &&
          PatternHolds(q, size < block.size ? size & ~size_t{7} : block.size & ~size_t{7},
                       block.seed));
    Keep(q, size);
  }
  void Free(char* p) {
    blocks_.erase(p);
    NextRandom(&random_) % 2 == 0 ? free(p) : granary_heap_free(heap_, p);
  }

  granary_heap* heap_;
  uint64_t random_;
  std::map<char*, Block> blocks_;
};

void CheckModel() {
  granary_heap* const heap = granary_heap_create("model", 0);
  CHECK(heap != nullptr && strcmp(granary_heap_name(heap), "model") == 0);
  Model model(heap, 1);
  for (int i = 0; i < 20000; ++i) {
    model.Step();
    if (i % 1000 == 0) model.CheckFigures();
  }
  model.CheckFigures();
  model.FreeAll();
  CHECK(Figures(heap).live == 0 && Figures(heap).objects == 0);
  granary_heap_destroy(heap);
}

// ---- refused allocations ----

void CheckCap() {
  constexpr size_t kCap = 1 << 20;
  granary_heap* const heap = granary_heap_create("capped", kCap);
  size_t live = 0;
  std::vector<void*> blocks;
  uint64_t random = 7;
  for (;;) {
    const size_t size = RandomSize(&random, 12) + 1;
    errno = 0;
    void* const p = granary_heap_malloc(heap, size);
    if (p == nullptr) {
      CHECK(errno == ENOMEM && live + granary_good_size(size) > kCap);
      break;
    }
    live += malloc_usable_size(p);
    CHECK(live <= kCap);
    blocks.push_back(p);
  }
  CHECK(Figures(heap).live == live && Figures(heap).cap == kCap);
  CHECK(live > kCap - 8192);
  // A refused allocation changes nothing, and the shared heap continues to serve.
  CHECK(granary_heap_calloc(heap, kCap, 1) == nullptr &&
        granary_heap_malloc(heap, 64 << 20) == nullptr);
  CHECK(granary_heap_realloc(heap, blocks[0], 2 << 20) == nullptr &&
        realloc(blocks[0], 2 << 20) == nullptr);
  CHECK(granary_heap_calloc(heap, SIZE_MAX / 2, 3) == nullptr && errno == ENOMEM);
  CHECK(Figures(heap).live == live);
  void* const other = malloc(2 << 20);
  CHECK(other != nullptr && granary_heap_of(other) == nullptr);
  free(other);
  errno = 0;
  CHECK(granary_heap_aligned_alloc(heap, 24, 8) == nullptr && errno == EINVAL);

  for (size_t i = 0; i < blocks.size(); i += 2) granary_heap_free(heap, blocks[i]);
  CHECK(granary_heap_malloc(heap, kCap / 4) != nullptr);
  // The figures also include a block that grows in place.
  granary_heap_set_cap(heap, 0);
  void* large = granary_heap_malloc(heap, 3 << 20);
  CHECK(large != nullptr);
  granary_heap_set_cap(heap, Figures(heap).live + (64 << 10));
  CHECK(granary_heap_realloc(heap, large, (3 << 20) + (128 << 10)) == nullptr);
  large = granary_heap_realloc(heap, large, (3 << 20) + (32 << 10));
  CHECK(large != nullptr && Figures(heap).live <= Figures(heap).cap);
  large = granary_heap_realloc(heap, large, 2 << 20);
  CHECK(large != nullptr && Figures(heap).cap - Figures(heap).live > (1 << 20));
  CHECK(granary_heap_realloc(heap, large, 0) == nullptr);
  granary_heap_destroy(heap);
}

// ---- all memory returned in one call ----

#if defined(GRANARY_EMULATED)
constexpr bool kEmulated = true;
#else
constexpr bool kEmulated = false;
#endif

bool IsMapped(void* p) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  unsigned char row;
  return mincore(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) / page * page), page,
                 &row) == 0;
}

void CheckDestroy() {
  constexpr size_t kBytes = 64 << 20;
  const uint64_t count = Stat("arenas"), used = Stat("arenas_used");
  granary_heap* const heap = granary_heap_create(nullptr, 0);
  CHECK(granary_heap_name(heap)[0] == 0 && Stat("arenas") == count + 1);
  const size_t before = ResidentBytes();
  void* last = nullptr;
  for (size_t sum = 0; sum < kBytes; sum += 1000) {
    last = granary_heap_malloc(heap, 1000);
    CHECK(last != nullptr);
    memset(last, 1, 1000);
  }
  CHECK(ResidentBytes() > before + kBytes / 2 && IsMapped(last));
  CHECK(Figures(heap).held >= kBytes && Stat("arenas_used") >= used + kBytes);

  granary_heap_reset(heap);
  CHECK(!IsMapped(last) && ResidentBytes() < before + kBytes / 8);
  CHECK(Figures(heap).live == 0 && Figures(heap).objects == 0 && Stat("arenas_used") == used);
  memset(granary_heap_malloc(heap, 5 << 20), 1, 5 << 20);
  last = granary_heap_malloc(heap, 10);
  granary_heap_destroy(heap);
  granary_heap_destroy(nullptr);
  CHECK(!IsMapped(last) && Stat("arenas") == count && Stat("arenas_used") == used);

  // Thousands of heaps, one after the other, leave nothing behind.
  const size_t start = ResidentBytes();
  for (int i = 0; i < 3000; ++i) {
    granary_heap* const short_lived = granary_heap_create("request", 0);
    for (size_t size = 1; size < 3000; size *= 2)
      CHECK(granary_heap_malloc(short_lived, size) != nullptr);
    granary_heap_destroy(short_lived);
  }
  // An emulator uses ever higher addresses, and keeps a description of every page it ever mapped.
  if (!kEmulated) CHECK(ResidentBytes() < start + (2 << 20));
}

void CheckPurge() {
  granary_heap* const heap = granary_heap_create("purged", 0);
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) {
    blocks.push_back(granary_heap_malloc(heap, 7000));
    memset(blocks.back(), 1, 7000);
  }
  const uint64_t full = Figures(heap).held;
  for (void* p : blocks) granary_heap_free(heap, p);
  granary_heap_purge(heap);
  CHECK(Figures(heap).held < full / 4 && Figures(heap).live == 0);
  granary_heap_destroy(heap);
}

// ---- threads ----

granary_heap* shared;
void* handed[4096];
pthread_mutex_t handing = PTHREAD_MUTEX_INITIALIZER;

// An object that one thread allocates and another frees.
void* Share(void* argument) {
  uint64_t random = reinterpret_cast<uintptr_t>(argument);
  for (int i = 0; i < 30000; ++i) {
    const size_t size = RandomSize(&random, 13) + 8;
    auto* p = static_cast<uint64_t*>(granary_heap_malloc(shared, size));
    CHECK(p != nullptr);
    *p = size;
    const size_t slot = NextRandom(&random) % 4096;
    CHECK(pthread_mutex_lock(&handing) == 0);
    void* const old = handed[slot];
    handed[slot] = p;
    CHECK(pthread_mutex_unlock(&handing) == 0);
    if (old == nullptr) continue;
    CHECK(malloc_usable_size(old) >= *static_cast<uint64_t*>(old));
    i % 2 == 0 ? granary_heap_free(shared, old) : free(old);
  }
  return nullptr;
}

void CheckThreads() {
  shared = granary_heap_create("shared", 0);
  pthread_t threads[6];
  for (uintptr_t i = 0; i < 6; ++i) {
    CHECK(pthread_create(&threads[i], nullptr, Share, reinterpret_cast<void*>(i + 1)) == 0);
  }
  for (pthread_t t : threads) CHECK(pthread_join(t, nullptr) == 0);
  size_t live = 0, objects = 0;
  for (void* p : handed) {
    if (p != nullptr) live += malloc_usable_size(p), ++objects;
  }
  CHECK(Figures(shared).live == live && Figures(shared).objects == objects);

  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    for (void* p : handed) granary_heap_free(shared, p);
    CHECK(Figures(shared).live == 0);
    CHECK(granary_heap_malloc(shared, 100) != nullptr);
    granary_heap_destroy(shared);
    _exit(0);
  }
  ExpectCleanChild(child);
  CHECK(Figures(shared).live == live);
  granary_heap_destroy(shared);
}

// ---- std::pmr ----

void CheckResource() {
  granary::memory_resource resource("words", 8 << 20);
  {
    std::pmr::map<std::pmr::string, int> words(&resource);
    for (int i = 0; i < 10000; ++i)
      words[std::pmr::string("a word that is long ") + std::to_string(i).c_str()] = i;
    CHECK(granary_heap_of(&*words.begin()) == resource.heap());
    CHECK(granary_heap_of(words.begin()->first.data()) == resource.heap());
    CHECK(Figures(resource.heap()).objects >= 20000);
    void* const aligned = resource.allocate(100, 256);
    CHECK(IsAligned(aligned, 256));
    resource.deallocate(aligned, 100, 256);
  }
  CHECK(Figures(resource.heap()).live == 0);
  bool thrown = false;
  try {
    std::pmr::vector<char> too_much(16 << 20, &resource);
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown);
  CHECK(resource.allocate(1000) != nullptr && Figures(resource.heap()).live > 0);
  resource.release();
  CHECK(Figures(resource.heap()).live == 0);
  granary::memory_resource same(resource.heap()), other;
  CHECK(resource == same && !(resource == other));
}

}  // namespace

int main() {
  if (OnSystemHeap()) return 0;
  CheckModel();
  CheckCap();
  CheckDestroy();
  CheckPurge();
  CheckThreads();
  CheckResource();
  return 0;
}
