// jemalloc's functions beyond the malloc family of the C library, without a prefix and with the
// prefixes of its usual builds. All are in one object file: a program that refers to some of them
// weakly expects all of them.

#include <stddef.h>

#include "base/compiler.h"
#include "compat/jemalloc/allocx.h"
#include "compat/jemalloc/ctl.h"
#include "compat/jemalloc/ctl_raw.h"
#include "compat/jemalloc/print.h"
#include "heap/fast.h"

using granary::heap::TryAllocate;
using granary::heap::TryFree;
using granary::heap::TryFreeSized;
using granary::jemalloc::Flags;
namespace jemalloc = granary::jemalloc;

extern "C" {

using Message = void (*)(void*, const char*);
__attribute__((weak)) GRANARY_EXPORT Message malloc_message = nullptr;
__attribute__((weak)) GRANARY_EXPORT Message je_malloc_message = nullptr;
__attribute__((weak)) GRANARY_EXPORT Message _rjem_malloc_message = nullptr;

GRANARY_EXPORT void* mallocx(size_t size, int flags) noexcept {
  if (flags == 0) {
    if (void* p = TryAllocate(size)) return p;
  }
  return jemalloc::Allocate(size, Flags(flags));
}

GRANARY_EXPORT void* rallocx(void* p, size_t size, int flags) noexcept {
  return jemalloc::Reallocate(p, size, Flags(flags));
}

GRANARY_EXPORT size_t xallocx(void* p, size_t size, size_t extra, int flags) noexcept {
  return jemalloc::ResizeInPlace(p, size, extra, Flags(flags));
}

GRANARY_EXPORT size_t sallocx(const void* p, int) noexcept {
  return granary::heap::UsableSize(p, "sallocx");
}

GRANARY_EXPORT void dallocx(void* p, int flags) noexcept {
  if (flags == 0 && TryFree(p)) return;
  jemalloc::Free(p, Flags(flags));
}

GRANARY_EXPORT void sdallocx(void* p, size_t size, int flags) noexcept {
  if (flags == 0 && TryFreeSized(p, size)) return;
  jemalloc::FreeSized(p, size, Flags(flags));
}

GRANARY_EXPORT size_t nallocx(size_t size, int flags) noexcept {
  return jemalloc::GoodSize(size, Flags(flags));
}

GRANARY_EXPORT int mallctl(const char* name, void* oldp, size_t* oldlenp, void* newp,
                           size_t newlen) noexcept {
  return jemalloc::Control(name, oldp, oldlenp, newp, newlen);
}

GRANARY_EXPORT int mallctlnametomib(const char* name, size_t* mibp, size_t* miblenp) noexcept {
  return jemalloc::NameToMib(name, mibp, miblenp);
}

GRANARY_EXPORT int mallctlbymib(const size_t* mib, size_t miblen, void* oldp, size_t* oldlenp,
                                void* newp, size_t newlen) noexcept {
  return jemalloc::ControlByMib(mib, miblen, oldp, oldlenp, newp, newlen);
}

// Not noexcept: the callback belongs to the program.
GRANARY_EXPORT void malloc_stats_print(Message to, void* argument, const char* letters) {
  if (to == nullptr) to = malloc_message;
  if (to == nullptr) to = je_malloc_message;
  if (to == nullptr) to = _rjem_malloc_message;
  if (to == nullptr) {
    to = [](void*, const char* text) { granary::Linux::WriteError(text, __builtin_strlen(text)); };
  }
  jemalloc::PrintStats(to, argument, letters);
}

// A function of Redis' build of jemalloc: 1 if moving the object helps to empty its slab.
GRANARY_EXPORT int je_get_defrag_hint(void* p) noexcept { return jemalloc::WorthMoving(p) ? 1 : 0; }

#define GRANARY_PREFIXED(name)                                                   \
  __attribute__((alias(#name), visibility("default"))) decltype(name) je_##name; \
  __attribute__((alias(#name), visibility("default"))) decltype(name) _rjem_##name;
GRANARY_PREFIXED(mallocx)
GRANARY_PREFIXED(rallocx)
GRANARY_PREFIXED(xallocx)
GRANARY_PREFIXED(sallocx)
GRANARY_PREFIXED(dallocx)
GRANARY_PREFIXED(sdallocx)
GRANARY_PREFIXED(nallocx)
GRANARY_PREFIXED(mallctl)
GRANARY_PREFIXED(mallctlnametomib)
GRANARY_PREFIXED(mallctlbymib)
GRANARY_PREFIXED(malloc_stats_print)
#undef GRANARY_PREFIXED
__attribute__((alias("nallocx"), visibility("default"))) decltype(nallocx) tc_nallocx;

}  // extern "C"
