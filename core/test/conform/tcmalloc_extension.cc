// MallocExtension at work, in C and in C++: figures that follow what the program does, memory that
// goes back, limits and the new mode. gperftools' own tests, by pattern.
#include <gperftools/malloc_extension.h>
#include <gperftools/malloc_extension_c.h>
#include <gperftools/tcmalloc.h>
#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <vector>

#include "../check.h"

#pragma weak tc_malloc_skip_new_handler
#pragma weak tc_malloc_size
#pragma weak tc_memalign
#pragma weak tc_nallocx
#pragma weak tc_set_new_mode
#pragma weak MallocExtension_GetNumericProperty
#pragma weak MallocExtension_SetNumericProperty
#pragma weak MallocExtension_GetOwnership
#pragma weak MallocExtension_GetAllocatedSize
#pragma weak MallocExtension_GetEstimatedAllocatedSize
#pragma weak MallocExtension_GetStats
#pragma weak MallocExtension_MallocMemoryStats
#pragma weak MallocExtension_VerifyAllMemory
#pragma weak MallocExtension_VerifyMallocMemory
#pragma weak MallocExtension_MarkThreadIdle
#pragma weak MallocExtension_MarkThreadBusy
#pragma weak MallocExtension_ReleaseToSystem
#pragma weak MallocExtension_ReleaseFreeMemory

namespace {

constexpr size_t kMebi = size_t{1} << 20;
constexpr size_t kTooLarge = SIZE_MAX - 100000;

size_t g_before_main;

__attribute__((constructor)) void RoundBeforeMain() {
  if (tc_nallocx != nullptr) g_before_main = tc_nallocx(99, 0);
}

MallocExtension* Extension() {
  using Instance = MallocExtension* (*)();
  return reinterpret_cast<Instance>(dlsym(RTLD_DEFAULT, "_ZN15MallocExtension8instanceEv"))();
}

size_t Get(const char* name) {
  size_t value = 0;
  CHECK(MallocExtension_GetNumericProperty(name, &value) == 1);
  return value;
}

void BothFormsAgree() {
  void* const block = malloc(1000);
  size_t value = 0;
  CHECK(Extension()->GetNumericProperty("generic.current_allocated_bytes", &value));
  CHECK(value > 1000 && value == Get("generic.current_allocated_bytes"));
  CHECK(Extension()->VerifyAllMemory() && MallocExtension_VerifyAllMemory() == 1);
  CHECK(Extension()->GetOwnership(block) == MallocExtension::kOwned);
  CHECK(Extension()->GetOwnership(&value) == MallocExtension::kNotOwned);
  CHECK(Extension()->GetOwnership(nullptr) == MallocExtension::kNotOwned);
  CHECK(MallocExtension_GetOwnership(nullptr) == MallocExtension_kNotOwned);
  CHECK(Extension()->GetAllocatedSize(block) >= 1000);
  CHECK(Extension()->GetAllocatedSize(block) <= 1250);
  CHECK(MallocExtension_GetAllocatedSize(block) == Extension()->GetAllocatedSize(block));
  CHECK(MallocExtension_GetEstimatedAllocatedSize(1000) >= 1000);
  free(block);
  CHECK(int{MallocExtension::kOwned} == int{MallocExtension_kOwned});
  CHECK(int{MallocExtension::kNotOwned} == int{MallocExtension_kNotOwned});
  CHECK(int{MallocExtension::kUnknownOwnership} == int{MallocExtension_kUnknownOwnership});
}

void SmallSizesAreNotUnderestimated() {
  for (size_t size = 0; size < 10; ++size) {
    void* const block = malloc(HideSize(size));
    CHECK(Extension()->GetAllocatedSize(block) >= Extension()->GetEstimatedAllocatedSize(size));
    free(block);
  }
}

void TheCFunctionsWorkInOneGo() {
  int blocks = 0, histogram[64];
  size_t total = 0;
  char text[200];
  void* const block = malloc(10);
  MallocExtension_VerifyMallocMemory(block);
  CHECK(MallocExtension_MallocMemoryStats(&blocks, &total, histogram) == 1 && blocks > 0);
  memset(text, 'x', sizeof text);
  MallocExtension_GetStats(text, sizeof text);
  CHECK(memchr(text, 0, sizeof text) != nullptr);
  MallocExtension_MarkThreadIdle();
  MallocExtension_MarkThreadBusy();
  MallocExtension_ReleaseToSystem(1);
  MallocExtension_ReleaseFreeMemory();
  CHECK(MallocExtension_GetOwnership(block) == MallocExtension_kOwned);
  CHECK(MallocExtension_GetOwnership(histogram) == MallocExtension_kNotOwned);
  free(block);
}

void AFreedObjectNoLongerCounts() {
  const size_t before = Get("generic.current_allocated_bytes");
  free(Hide(malloc(200)));
  CHECK(Get("generic.current_allocated_bytes") == before);
}

// nallocx tells the size of every object, before main too.
void NallocxTellsTheSize() {
  CHECK(g_before_main >= 99);
  for (size_t size = 1; size <= kMebi; size += 7) {
    void* block = malloc(HideSize(size));
    CHECK(tc_nallocx(size, 0) >= size && tc_nallocx(size, 0) == tc_malloc_size(block));
    free(block);
  }
}

void NallocxTellsTheSizeOfAlignedObjects() {
  for (size_t size = 1; size <= kMebi; size += 131) {
    for (int lg = 0; lg < 10; ++lg) {
      const size_t rounded = tc_nallocx(size, lg);
      CHECK(rounded >= size);
      void* block = tc_memalign(size_t{1} << lg, size);
      CHECK(IsAligned(block, size_t{1} << lg) && rounded == tc_malloc_size(block));
      free(block);
    }
  }
}

std::vector<char*> TouchedBlocks(size_t count, size_t size) {
  std::vector<char*> blocks(count);
  for (char*& block : blocks) memset(block = static_cast<char*>(malloc(size)), 1, size);
  return blocks;
}

// The first call releases at least what it is asked for; the second finds nothing more.
void ReleaseToSystemReleasesWhatIsAsked() {
  CHECK(MallocExtension_SetNumericProperty("tcmalloc.aggressive_memory_decommit", 0) == 1);
  std::vector<char*> blocks = TouchedBlocks(16, kMebi);
  MallocExtension_ReleaseFreeMemory();
  CHECK(Get("tcmalloc.pageheap_free_bytes") == 0);
  for (char* block : blocks) free(block);
  const size_t dirty = Get("tcmalloc.pageheap_free_bytes");
  CHECK(dirty >= 8 * kMebi);
  MallocExtension_ReleaseToSystem(4 * kMebi);
  const size_t rest = Get("tcmalloc.pageheap_free_bytes");
  CHECK(rest <= dirty - 4 * kMebi && rest > 0);
  MallocExtension_ReleaseToSystem(1);
  CHECK(Get("tcmalloc.pageheap_free_bytes") < rest);
  MallocExtension_ReleaseFreeMemory();
  CHECK(Get("tcmalloc.pageheap_free_bytes") == 0);
  MallocExtension_ReleaseFreeMemory();
  CHECK(Get("tcmalloc.pageheap_free_bytes") == 0);
}

// In gperftools each free of a span purges it; here up to 1 MiB and the block freed last stay.
void AggressiveDecommitKeepsNothing() {
  CHECK(MallocExtension_SetNumericProperty("tcmalloc.aggressive_memory_decommit", 1) == 1);
  std::vector<char*> blocks = TouchedBlocks(16, kMebi);
  for (char* block : blocks) free(block);
  CHECK(Get("tcmalloc.pageheap_free_bytes") <= 2 * kMebi);
  CHECK(MallocExtension_SetNumericProperty("tcmalloc.aggressive_memory_decommit", 0) == 1);
}

void GrowingBlocksDoNotGrowTheHeap() {
  free(Hide(malloc(550 * kMebi)));
  MallocExtension_ReleaseFreeMemory();
  for (int pass = 0; pass < 3; ++pass) {
    for (size_t size = 100 * kMebi; size < 500 * kMebi; size += 200000) {
      free(Hide(malloc(HideSize(size))));
      CHECK(Get("generic.heap_size") < 1024 * kMebi);
    }
  }
}

// Half of the objects freed, every other one: what is free is reported as free.
void HolesAreCounted() {
  constexpr size_t kSize = 264 << 10;
  std::vector<char*> blocks = TouchedBlocks(400, kSize);
  const size_t before = Get("generic.current_allocated_bytes");
  for (size_t i = 0; i < blocks.size(); i += 2) free(blocks[i]);
  const size_t freed = before - Get("generic.current_allocated_bytes");
  CHECK(freed >= 200 * kSize && freed <= 220 * kSize);
  for (size_t i = 1; i < blocks.size(); i += 2) free(blocks[i]);
}

bool g_handled;
std::new_handler g_previous;
void OnNoMemory() {
  g_handled = true;
  std::set_new_handler(g_previous);
}

template <class Request>
void CallsTheHandler(Request request) {
  g_handled = false;
  g_previous = std::set_new_handler(OnNoMemory);
  CHECK(request() == nullptr && g_handled && errno == ENOMEM);
}

void EachFunctionCallsTheHandlerInTheNewMode() {
  const int before = tc_set_new_mode(1);
  CallsTheHandler([] { return malloc(HideSize(kTooLarge)); });
  CallsTheHandler([] { return calloc(1, HideSize(kTooLarge)); });
  CallsTheHandler([] { return realloc(nullptr, HideSize(kTooLarge)); });
  CallsTheHandler([] { return memalign(32, HideSize(kTooLarge)); });
  CallsTheHandler([] {
    void* block = nullptr;
    errno = posix_memalign(&block, 32, HideSize(kTooLarge));
    return block;
  });
  g_handled = false;
  g_previous = std::set_new_handler(OnNoMemory);
  CHECK(tc_malloc_skip_new_handler(HideSize(kTooLarge)) == nullptr && errno == ENOMEM);
  CHECK(!g_handled);
  std::set_new_handler(g_previous);
  tc_set_new_mode(before);
}

// More objects in caches than a counter of 16 bits holds.
void ManyCachedObjectsOfOneSize() {
  std::vector<char*> blocks(70000);
  for (char*& block : blocks) block = new char[10];
  for (char* block : blocks) delete[] block;
}

void* AllocateAndFree(void*) {
  char* blocks[1024];
  for (char*& block : blocks) block = static_cast<char*>(malloc(1024));
  for (char* block : blocks) free(block);
  return nullptr;
}

// A thousand threads, one after another, leave no caches and nothing allocated behind.
void EndedThreadsLeaveNoCaches() {
  AllocateAndFree(nullptr);
  size_t before = 0;
  for (int i = 0; i < 1000; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, AllocateAndFree, nullptr) == 0);
    CHECK(pthread_join(thread, nullptr) == 0);
    if (i == 10) before = Get("generic.current_allocated_bytes");
  }
  CHECK(Get("generic.current_allocated_bytes") <= before + 1024);
  CHECK(Get("tcmalloc.impl.thread_cache_count") <=
        static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF)));
  CHECK(Get("tcmalloc.current_total_thread_cache_bytes") <= 64 * kMebi);
}

}  // namespace

int main() {
  if (OnSystemHeap()) return 0;
  BothFormsAgree();
  SmallSizesAreNotUnderestimated();
  TheCFunctionsWorkInOneGo();
  AFreedObjectNoLongerCounts();
  NallocxTellsTheSize();
  NallocxTellsTheSizeOfAlignedObjects();
  ReleaseToSystemReleasesWhatIsAsked();
  AggressiveDecommitKeepsNothing();
  GrowingBlocksDoNotGrowTheHeap();
  HolesAreCounted();
  EachFunctionCallsTheHandlerInTheNewMode();
  ManyCachedObjectsOfOneSize();
  EndedThreadsLeaveNoCaches();
}
