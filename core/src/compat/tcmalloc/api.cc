// gperftools' functions beyond the malloc family: the C names of MallocExtension, and access to the
// C++ class. libc.cc and operators.cc define tc_malloc and the other names of the malloc family.

#include <stddef.h>

#include "base/compiler.h"
#include "compat/tcmalloc/extension.h"
#include "compat/tcmalloc/properties.h"
#include "heap/heap.h"

namespace heap = granary::heap;
namespace tcmalloc = granary::tcmalloc;

extern "C" {

GRANARY_EXPORT const char* tc_version(int* major, int* minor, const char** patch) noexcept {
  if (major != nullptr) *major = 2;
  if (minor != nullptr) *minor = 18;
  if (patch != nullptr) *patch = ".1";
  return "Granary " GRANARY_VERSION " (gperftools 2.18.1)";
}

GRANARY_EXPORT int MallocExtension_VerifyAllMemory(void) { return tcmalloc::VerifyAll(); }
GRANARY_EXPORT int MallocExtension_VerifyNewMemory(const void* p) { return tcmalloc::Verify(p); }
GRANARY_EXPORT int MallocExtension_VerifyArrayNewMemory(const void* p) {
  return tcmalloc::Verify(p);
}
GRANARY_EXPORT int MallocExtension_VerifyMallocMemory(const void* p) { return tcmalloc::Verify(p); }
GRANARY_EXPORT int MallocExtension_MallocMemoryStats(int* blocks, size_t* total,
                                                     int histogram[64]) {
  return tcmalloc::MemoryStats(blocks, total, histogram);
}
GRANARY_EXPORT void MallocExtension_GetStats(char* buffer, int length) {
  tcmalloc::GetStats(buffer, length);
}
GRANARY_EXPORT int MallocExtension_GetNumericProperty(const char* name, size_t* value) {
  return tcmalloc::GetProperty(name, value);
}
GRANARY_EXPORT int MallocExtension_SetNumericProperty(const char* name, size_t value) {
  return tcmalloc::SetProperty(name, value);
}
// Without effect: caches belong to CPUs, and upkeep empties idle caches.
GRANARY_EXPORT void MallocExtension_MarkThreadIdle(void) {}
GRANARY_EXPORT void MallocExtension_MarkThreadBusy(void) {}
GRANARY_EXPORT void MallocExtension_MarkThreadTemporarilyIdle(void) {}
GRANARY_EXPORT void MallocExtension_ReleaseToSystem(size_t bytes) {
  tcmalloc::ReleaseToSystem(bytes);
}
GRANARY_EXPORT void MallocExtension_ReleaseFreeMemory(void) { heap::Trim(); }
GRANARY_EXPORT void MallocExtension_SetMemoryReleaseRate(double rate) {
  tcmalloc::SetReleaseRate(rate);
}
GRANARY_EXPORT double MallocExtension_GetMemoryReleaseRate(void) { return tcmalloc::ReleaseRate(); }
GRANARY_EXPORT size_t MallocExtension_GetEstimatedAllocatedSize(size_t size) {
  return tcmalloc::Estimate(size);
}
GRANARY_EXPORT size_t MallocExtension_GetAllocatedSize(const void* p) {
  return heap::UsableSize(p, "GetAllocatedSize");
}
GRANARY_EXPORT size_t MallocExtension_GetThreadCacheSize(void) {
  return tcmalloc::ThreadCacheSize();
}
GRANARY_EXPORT int MallocExtension_GetOwnership(const void* p) { return tcmalloc::Ownership(p); }

}  // extern "C"

// static MallocExtension* MallocExtension::instance(), ::Initialize() and ::Register(...).
GRANARY_EXPORT tcmalloc::Extension* CxxInstance() __asm__("_ZN15MallocExtension8instanceEv");
GRANARY_EXPORT void CxxInitialize() __asm__("_ZN15MallocExtension10InitializeEv");
GRANARY_EXPORT void CxxRegister(void*) __asm__("_ZN15MallocExtension8RegisterEPS_");

tcmalloc::Extension* CxxInstance() { return tcmalloc::Instance(); }
void CxxInitialize() {}
void CxxRegister(void*) {}
