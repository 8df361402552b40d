// jemalloc's options about memory, each in a child that starts with it: unmapped address space,
// large blocks that are purged immediately, metadata and objects on huge pages, caches that share a
// budget, caches for small objects only, and a new that never throws.
#include <malloc.h>

#include <new>
#include <utility>

#include "check.h"
#include "child.h"
#include "granary/stats.h"

namespace {

constexpr size_t kMiB = 1 << 20;

// A line "Name:   123 kB" of /proc/self/status, in bytes.
size_t Status(const char* name) {
  FILE* const file = fopen("/proc/self/status", "r");
  CHECK(file != nullptr);
  char line[256];
  size_t kib = 0;
  while (fgets(line, sizeof line, file) != nullptr) {
    if (strncmp(line, name, strlen(name)) == 0) kib = strtoul(line + strlen(name) + 1, nullptr, 10);
  }
  fclose(file);
  CHECK(kib > 0);
  return kib * 1024;
}

uint64_t Figure(const char* name) {
  using Stat = decltype(granary_stat);
  static auto* const stat = reinterpret_cast<Stat*>(dlsym(RTLD_DEFAULT, "granary_stat"));
  uint64_t value = 0;
  CHECK(stat != nullptr && stat(name, &value) == 0);
  return value;
}

int Control(const char* name, void* old, size_t* old_size, void* value, size_t size) {
  using Function = int(const char*, void*, size_t*, void*, size_t);
  static auto* const control = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, "mallctl"));
  CHECK(control != nullptr);
  return control(name, old, old_size, value, size);
}

template <class T>
T Get(const char* name) {
  uint64_t epoch = 1;
  CHECK(Control("epoch", nullptr, nullptr, &epoch, sizeof epoch) == 0);
  T value{};
  size_t size = sizeof value;
  CHECK(Control(name, &value, &size, nullptr, 0) == 0);
  return value;
}

void* Touched(size_t bytes) {
  void* const p = Hide(malloc(bytes));
  CHECK(p != nullptr);
  memset(p, 1, bytes);
  return p;
}

// Allocates and frees half a GiB of objects and blocks three times. `gone` says whether their
// address space must be unmapped, too.
void CheckAddressSpace(bool gone) {
  const size_t before = Status("VmSize");
  for (int round = 0; round < 3; ++round) {
    static void* blocks[4096];
    for (size_t i = 0; i < 4096; ++i) blocks[i] = Touched(i % 64 == 0 ? 2 * kMiB : 96 * 1024);
    CHECK(Status("VmSize") >= before + 400 * kMiB);
    for (void* p : blocks) free(p);
    malloc_trim(0);
    const size_t left = Status("VmSize") - before;
    if (gone ? left > 70 * kMiB : left < 400 * kMiB) fprintf(stderr, "%zu bytes left\n", left);
    CHECK(gone ? left <= 70 * kMiB : left >= 400 * kMiB);
  }
}

void CheckOversize(bool at_once) {
  void* const large = Touched(64 * kMiB);
  void* const less = Touched(4 * kMiB);
  const size_t with = Status("VmRSS");
  free(large);
  const size_t without = Status("VmRSS");
  CHECK(at_once ? without + 60 * kMiB < with : without + 30 * kMiB > with);
  free(less);
  CHECK(Figure("dirty") >= 4 * kMiB);
  auto* const again = static_cast<char*>(calloc(1, 64 * kMiB));
  for (size_t i = 0; i < 64 * kMiB; i += 4096) CHECK(again[i] == 0);
  free(again);
}

// Slabs of 16-byte objects need the largest bitmaps: together they exceed a huge page.
void CheckMetadata(bool huge) {
  struct Node {
    Node* next;
  };
  Node* last = nullptr;
  for (int i = 0; i < 16000000; ++i) last = new (Hide(malloc(16))) Node{last};
  CHECK((Get<size_t>("stats.metadata_thp") > 0) == huge);
  while (last != nullptr) free(std::exchange(last, last->next));
}

// With the budget of one cache for all CPUs, each cache has its share of the budget.
void CheckCaches(bool shared) {
  const auto cpus = static_cast<uint64_t>(sysconf(_SC_NPROCESSORS_ONLN));
  for (int round = 0; round < 20; ++round) {
    static void* blocks[20000];
    for (size_t i = 0; i < 20000; ++i) blocks[i] = Hide(malloc(16 + i % 2000));
    for (void* p : blocks) free(p);
  }
  if (shared) CHECK(Figure("cache_capacity") <= 8 * kMiB * Figure("caches") / cpus);
  CHECK(Get<unsigned>("opt.narenas") == 1);
}

// Whether a freed object of 8,000 bytes is cached.
void CheckCached(bool large) {
  static void* blocks[64];
  for (void*& p : blocks) p = Hide(malloc(8000));
  const uint64_t before = Figure("cached");
  for (void* p : blocks) free(p);
  CHECK((Figure("cached") >= before + 8000) == large);
}

// Whether the kernel was told to use huge pages at the start of a heap, and beyond its first 128
// MiB.
void CheckHuge(bool small_heap, bool large_heap) {
  const auto asked = [] {
    FILE* const file = fopen("/proc/self/smaps", "r");
    CHECK(file != nullptr);
    char line[512];
    bool found = false;
    while (fgets(line, sizeof line, file) != nullptr) {
      found |= strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg") != nullptr;
    }
    fclose(file);
    return found;
  };
  Touched(1000);
  CHECK(asked() == small_heap);
  for (size_t i = 0; i < 80000; ++i) CHECK(Hide(malloc(3000)) != nullptr);
  CHECK(asked() == large_heap);
}

void Act(const char* what) {
  if (strcmp(what, "cached") == 0) return CheckCached(true);
  if (strcmp(what, "not cached") == 0) return CheckCached(false);
  if (strcmp(what, "all huge") == 0) return CheckHuge(true, true);
  if (strcmp(what, "large heaps huge") == 0) return CheckHuge(false, true);
  if (strcmp(what, "none huge") == 0) return CheckHuge(false, false);
  if (strcmp(what, "unmap") == 0) return CheckAddressSpace(true);
  if (strcmp(what, "keep") == 0) return CheckAddressSpace(false);
  if (strcmp(what, "at once") == 0) return CheckOversize(true);
  if (strcmp(what, "later") == 0) return CheckOversize(false);
  if (strcmp(what, "huge") == 0) return CheckMetadata(true);
  if (strcmp(what, "small") == 0) return CheckMetadata(false);
  if (strcmp(what, "shared") == 0) return CheckCaches(true);
  if (strcmp(what, "each") == 0) return CheckCaches(false);
  if (strcmp(what, "throw") == 0) {
    try {
      free(operator new(HideSize(SIZE_MAX / 4)));
    } catch (const std::bad_alloc&) {
    }
    CHECK(operator new(HideSize(SIZE_MAX / 4), std::nothrow) == nullptr);
    return;
  }
  CHECK(!"no such check");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) {
    EndIfStuck();
    Act(argv[1]);
    return 0;
  }
  if (OnSystemHeap()) SkipTest("the options are Granary's own.");
  const Setting rows[] = {
      {"MALLOC_CONF", "retain:false", "unmap", false},
      {"MALLOC_CONF", "retain:true", "keep", false},
      {"GRANARY_CONF", "retain:false,background_thread:false", "unmap", false},
      {"MALLOC_CONF", "dirty_decay_ms:-1,oversize_threshold:8388608", "at once", false},
      {"MALLOC_CONF", "dirty_decay_ms:-1,oversize_threshold:0", "later", false},
      {"MALLOC_CONF", "metadata_thp:always", "huge", false},
      {"MALLOC_CONF", "metadata_thp:auto", "huge", false},
      {"MALLOC_CONF", "metadata_thp:disabled", "small", false},
      {"MALLOC_CONF", "tcache_max:32768", "cached", false},
      {"MALLOC_CONF", "tcache_max:1024", "not cached", false},
      {"MALLOC_CONF", "lg_tcache_max:10", "not cached", false},
      {"MALLOC_CONF", "thp:always", "all huge", false},
      {"MALLOC_CONF", "thp:default", "large heaps huge", false},
      {"MALLOC_CONF", "thp:never", "none huge", false},
      {"MALLOC_CONF", "narenas:1", "shared", false},
      {"MALLOC_CONF", "narenas:default", "each", false},
      {"MALLOC_CONF", "experimental_infallible_new:false", "throw", false},
      {"MALLOC_CONF", "experimental_infallible_new:true", "throw", true}};
  for (const Setting& row : rows) ExpectUnder(row);
  return 0;
}
