#include "heap/stay_loaded.h"

#include <dlfcn.h>
#include <link.h>

// Absent from a static program.
#pragma weak dlopen
#pragma weak dladdr
#pragma weak _DYNAMIC
extern ElfW(Dyn) _DYNAMIC[];  // NOLINT(readability-redundant-declaration): not in musl's link.h

namespace granary::heap {
namespace {

bool MayBeUnloaded() {
  if (&dlopen == nullptr || &dladdr == nullptr || _DYNAMIC == nullptr) return false;
  for (const ElfW(Dyn)* entry = _DYNAMIC; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_DEBUG) return false;  // only programs have it
    if (entry->d_tag == DT_FLAGS_1 && (entry->d_un.d_val & DF_1_NODELETE) != 0) return false;
  }
  return true;
}

}  // namespace

void StayLoaded() noexcept {
  Dl_info library{};
  if (!MayBeUnloaded() || dladdr(_DYNAMIC, &library) == 0) return;
  dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace granary::heap
