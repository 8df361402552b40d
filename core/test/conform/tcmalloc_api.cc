// gperftools' functions: the malloc family under its names, MallocExtension in C and in C++ through
// the virtual table, and every property that a known program reads.
#include <gperftools/malloc_extension.h>
#include <gperftools/malloc_extension_c.h>
#include <gperftools/tcmalloc.h>

#include "check.h"

#pragma weak tc_version
#pragma weak tc_malloc
#pragma weak tc_free
#pragma weak tc_free_sized
#pragma weak tc_calloc
#pragma weak tc_realloc
#pragma weak tc_memalign
#pragma weak tc_posix_memalign
#pragma weak tc_malloc_size
#pragma weak tc_nallocx
#pragma weak tc_mallinfo2
#pragma weak tc_mallopt
#pragma weak tc_new
#pragma weak tc_new_nothrow
#pragma weak tc_delete
#pragma weak tc_delete_sized
#pragma weak tc_new_aligned
#pragma weak tc_delete_aligned
#pragma weak tc_set_new_mode
#pragma weak tc_query_new_mode
#pragma weak MallocExtension_GetNumericProperty
#pragma weak MallocExtension_SetNumericProperty
#pragma weak MallocExtension_GetStats
#pragma weak MallocExtension_MallocMemoryStats
#pragma weak MallocExtension_VerifyAllMemory
#pragma weak MallocExtension_VerifyMallocMemory
#pragma weak MallocExtension_ReleaseToSystem
#pragma weak MallocExtension_ReleaseFreeMemory
#pragma weak MallocExtension_SetMemoryReleaseRate
#pragma weak MallocExtension_GetMemoryReleaseRate
#pragma weak MallocExtension_GetEstimatedAllocatedSize
#pragma weak MallocExtension_GetAllocatedSize
#pragma weak MallocExtension_GetOwnership
#pragma weak MallocExtension_MarkThreadIdle

namespace {

const char* const kProperties[] = {
    "generic.current_allocated_bytes",
    "generic.heap_size",
    "generic.total_physical_bytes",
    "tcmalloc.pageheap_free_bytes",
    "tcmalloc.pageheap_unmapped_bytes",
    "tcmalloc.current_total_thread_cache_bytes",
    "tcmalloc.pageheap_committed_bytes",
    "tcmalloc.pageheap_scavenge_count",
    "tcmalloc.pageheap_commit_count",
    "tcmalloc.pageheap_total_commit_bytes",
    "tcmalloc.pageheap_decommit_count",
    "tcmalloc.pageheap_total_decommit_bytes",
    "tcmalloc.pageheap_reserve_count",
    "tcmalloc.pageheap_total_reserve_bytes",
    "tcmalloc.central_cache_free_bytes",
    "tcmalloc.transfer_cache_free_bytes",
    "tcmalloc.thread_cache_free_bytes",
    "tcmalloc.slack_bytes",
    "tcmalloc.impl.thread_cache_count",
    "tcmalloc.max_total_thread_cache_bytes",
    "tcmalloc.aggressive_memory_decommit",
    "tcmalloc.min_per_thread_cache_bytes",
    "tcmalloc.heap_limit_mb",
    "tcmalloc.sample_parameter",
    "generic.virtual_memory_used",
    "generic.physical_memory_used",
    "generic.bytes_in_use_by_app",
    "generic.peak_memory_usage",
    "tcmalloc.metadata_bytes",
    "tcmalloc.per_cpu_caches_active",
};

size_t Get(const char* name) {
  size_t value = 0;
  if (MallocExtension_GetNumericProperty(name, &value) != 1) fprintf(stderr, "%s\n", name);
  CHECK(MallocExtension_GetNumericProperty(name, &value) == 1);
  return value;
}

void CheckFamily() {
  int major = 0, minor = 0;
  const char* patch = nullptr;
  CHECK(strstr(tc_version(&major, &minor, &patch), "Granary") != nullptr);
  CHECK(major == 2 && minor == 18 && strcmp(patch, ".1") == 0);
  CHECK(tc_version(nullptr, nullptr, nullptr) != nullptr);
  void* p = tc_malloc(100);
  CHECK(tc_malloc_size(p) == tc_nallocx(100, 0));
  p = tc_realloc(p, 5000);
  free(p);
  tc_free_sized(tc_malloc(100), 100);
  char* const zeroed = static_cast<char*>(tc_calloc(10, 10));
  CHECK(zeroed[99] == 0);
  tc_free(zeroed);
  CHECK(IsAligned(p = tc_memalign(256, 100), 256));
  tc_free(p);
  CHECK(tc_posix_memalign(&p, 512, 100) == 0 && IsAligned(p, 512));
  tc_free(p);
  tc_delete(tc_new(100));
  tc_delete_sized(tc_new_nothrow(100, std::nothrow), 100);
  CHECK(IsAligned(p = tc_new_aligned(100, std::align_val_t{1024}), 1024));
  tc_delete_aligned(p, std::align_val_t{1024});
  CHECK(tc_mallinfo2().uordblks > 0 && tc_mallopt(1, 1) == 1);
}

int handler_calls;
void Handler() {
  ++handler_calls;
  std::set_new_handler(nullptr);
}

void CheckNewMode() {
  CHECK(tc_query_new_mode() == 0 && tc_set_new_mode(1) == 0 && tc_query_new_mode() == 1);
  std::set_new_handler(Handler);
  CHECK(malloc(HideSize(SIZE_MAX / 4)) == nullptr && handler_calls == 1);
  CHECK(tc_set_new_mode(0) == 1);
}

void CheckProperties() {
  for (const char* name : kProperties) Get(name);
  size_t value = 77;
  CHECK(MallocExtension_GetNumericProperty("generic.nonsense", &value) == 0 && value == 77);
  const size_t before = Get("generic.current_allocated_bytes");
  void* const p = Hide(malloc(1));
  CHECK(Get("generic.current_allocated_bytes") == before + 8);
  free(p);
  CHECK(Get("generic.current_allocated_bytes") == before);
  CHECK(Get("generic.heap_size") >=
        Get("generic.total_physical_bytes") - Get("tcmalloc.metadata_bytes"));
  CHECK(MallocExtension_SetNumericProperty("tcmalloc.max_total_thread_cache_bytes", 64 << 20) == 1);
  CHECK(Get("tcmalloc.max_total_thread_cache_bytes") > (63 << 20));
  CHECK(MallocExtension_SetNumericProperty("tcmalloc.aggressive_memory_decommit", 1) == 1);
  CHECK(Get("tcmalloc.aggressive_memory_decommit") == 1);
  CHECK(MallocExtension_SetNumericProperty("tcmalloc.aggressive_memory_decommit", 0) == 1);
  CHECK(MallocExtension_SetNumericProperty("generic.heap_size", 1) == 0);
  MallocExtension_SetMemoryReleaseRate(4);
  CHECK(MallocExtension_GetMemoryReleaseRate() == 4);
  MallocExtension_SetMemoryReleaseRate(0);
  CHECK(MallocExtension_GetMemoryReleaseRate() == 0);
  MallocExtension_SetMemoryReleaseRate(1);
}

void CheckCShim() {
  char text[4096];
  MallocExtension_GetStats(text, sizeof text);
  CHECK(strstr(text, "Bytes in use by application") != nullptr);
  MallocExtension_GetStats(text, 10);
  CHECK(strlen(text) == 9);
  int blocks, histogram[64], sum = 0;
  size_t total;
  void* const p = malloc(100);
  void* const large = malloc(5 << 20);
  CHECK(MallocExtension_MallocMemoryStats(&blocks, &total, histogram) == 1);
  for (int count : histogram) sum += count;
  CHECK(sum == blocks && histogram[22] == 1 && total > 5 << 20);
  CHECK(MallocExtension_VerifyAllMemory() == 1 && MallocExtension_VerifyMallocMemory(p) == 1);
  CHECK(MallocExtension_GetAllocatedSize(p) == MallocExtension_GetEstimatedAllocatedSize(100));
  CHECK(MallocExtension_GetOwnership(p) == MallocExtension_kOwned);
  CHECK(MallocExtension_GetOwnership(large) == MallocExtension_kOwned);
  CHECK(MallocExtension_GetOwnership(&sum) == MallocExtension_kNotOwned);
  free(p);
  memset(large, 1, 5 << 20);
  free(large);
  MallocExtension_MarkThreadIdle();
  MallocExtension_ReleaseToSystem(1 << 20);
  MallocExtension_ReleaseFreeMemory();
  CHECK(Get("tcmalloc.pageheap_free_bytes") == 0);
}

void CheckClass() {
  using Instance = MallocExtension* (*)();
  const auto instance =
      reinterpret_cast<Instance>(dlsym(RTLD_DEFAULT, "_ZN15MallocExtension8instanceEv"));
  MallocExtension* const extension = instance();
  CHECK(extension == instance());
  size_t value = 0;
  CHECK(extension->GetNumericProperty("generic.heap_size", &value) && value > 0);
  CHECK(!extension->GetNumericProperty("nonsense", &value));
  char text[4096];
  extension->GetStats(text, sizeof text);
  CHECK(strstr(text, "MALLOC:") != nullptr);
  void* const p = malloc(100);
  CHECK(extension->GetAllocatedSize(p) == extension->GetEstimatedAllocatedSize(100));
  CHECK(extension->GetOwnership(p) == MallocExtension::kOwned && extension->VerifyNewMemory(p));
  free(p);
  extension->SetMemoryReleaseRate(2);
  CHECK(extension->GetMemoryReleaseRate() == 2);
  extension->SetMemoryReleaseRate(1);
  extension->MarkThreadIdle();
  extension->MarkThreadTemporarilyIdle();
  extension->ReleaseToSystem(1);
  extension->ReleaseFreeMemory();
  CHECK(extension->SetNumericProperty("tcmalloc.aggressive_memory_decommit", 0));
  int period = 7;
  CHECK(extension->ReadStackTraces(&period) == nullptr && period == 0);
  CHECK(extension->GetSystemAllocator() == nullptr);
}

}  // namespace

int main() {
  if (OnSystemHeap()) return 0;
  CheckFamily();
  CheckNewMode();
  CheckProperties();
  CheckCShim();
  CheckClass();
  return 0;
}
