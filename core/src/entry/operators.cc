// The twenty operators new and delete. The library does not depend on libstdc++: a program that
// calls a throwing form has loaded libstdc++, so the references to its functions for throwing are
// weak.

#include <dlfcn.h>

#include <cstddef>
#include <new>

#include "base/compiler.h"
#include "base/writer.h"
#include "entry/new_mode.h"
#include "heap/fast.h"

// The exception tables that the compiler generates refer to these symbols.
__asm__(".weak __gxx_personality_v0");
__asm__(".weak __cxa_begin_catch");
__asm__(".weak __cxa_end_catch");
#if defined(__clang__)
__asm__(".weak _ZSt9terminatev");
#endif

// Absent from a static program.
#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlclose

namespace granary {

using heap::TryAllocate;
using heap::TryFree;
using heap::TryFreeSized;

[[noreturn]] __attribute__((weak)) void ThrowBadAlloc() __asm__("_ZSt17__throw_bad_allocv");
__attribute__((weak)) std::new_handler GetNewHandler() __asm__("_ZSt15get_new_handlerv");

namespace {

// What a refusal needs of a C++ runtime: bound with the library, or found when a plugin of a C
// program has brought one since. The names are those of libstdc++ and of libc++.
struct Runtime {
  decltype(&ThrowBadAlloc) throw_bad_alloc;
  decltype(&GetNewHandler) get_new_handler;
};

GRANARY_COLD Runtime RuntimeLoadedSince() {
  Runtime found{};
  if (&dlopen == nullptr || &dlsym == nullptr) return found;  // a static program
  for (const char* name : {"libstdc++.so.6", "libc++.so.1"}) {
    void* const library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    found = {reinterpret_cast<decltype(&ThrowBadAlloc)>(dlsym(library, "_ZSt17__throw_bad_allocv")),
             reinterpret_cast<decltype(&GetNewHandler)>(dlsym(library, "_ZSt15get_new_handlerv"))};
    dlclose(library);
    if (found.throw_bad_alloc != nullptr) break;
  }
  return found;
}

Runtime FindRuntime() {
  if (ThrowBadAlloc != nullptr) return {ThrowBadAlloc, GetNewHandler};
  return RuntimeLoadedSince();
}

std::new_handler HandlerOf(const Runtime& runtime) {
  return runtime.get_new_handler != nullptr ? runtime.get_new_handler() : nullptr;
}

void* TryOnce(size_t size, size_t alignment) {
  return alignment == 1 ? heap::Allocate(size) : heap::AllocateAligned(size, alignment);
}

[[noreturn]] GRANARY_COLD void DieOfNew(size_t size) {
  char message[160];
  Writer w(message, sizeof message - 1);
  w.Text("operator new was refused ").Number(size).Text(" bytes and infallible_new is set");
  message[w.size()] = 0;
  Die(message);
}

// As in [new.delete.single]: calls the new handler until an allocation succeeds or the handler is
// removed.
GRANARY_NOINLINE void* NewOrThrow(size_t size, size_t alignment) {
  for (;;) {
    if (void* p = TryOnce(size, alignment)) return p;
    if (options.infallible_new) DieOfNew(size);
    const Runtime runtime = FindRuntime();
    if (const std::new_handler handler = HandlerOf(runtime); handler != nullptr) {
      handler();
      continue;
    }
    if (runtime.throw_bad_alloc != nullptr) runtime.throw_bad_alloc();
    Die("operator new is out of memory and the program has no C++ runtime to throw std::bad_alloc");
  }
}

GRANARY_NOINLINE void* NewOrNull(size_t size, size_t alignment) noexcept {
  do {
    if (void* p = TryOnce(size, alignment)) return p;
    if (options.infallible_new) DieOfNew(size);
  } while (CallNewHandler());
  return nullptr;
}

}  // namespace

bool malloc_calls_new_handler;

bool CallNewHandler() noexcept {
  const std::new_handler handler = HandlerOf(FindRuntime());
  if (handler == nullptr) return false;
  try {
    handler();
  } catch (...) {
    return false;
  }
  return true;
}

namespace {

GRANARY_NOINLINE void DeleteSlow(void* p) { heap::Free(p); }
GRANARY_NOINLINE void DeleteSizedSlow(void* p, size_t size, size_t alignment) {
  heap::FreeSized(p, size, alignment);
}

GRANARY_ALWAYS_INLINE void* New(size_t size) {
  if (void* p = TryAllocate(size)) return p;
  return NewOrThrow(size, 1);
}
GRANARY_ALWAYS_INLINE void* NewNothrow(size_t size) noexcept {
  if (void* p = TryAllocate(size)) return p;
  return NewOrNull(size, 1);
}
GRANARY_ALWAYS_INLINE void Delete(void* p) noexcept {
  if (!TryFree(p)) DeleteSlow(p);
}
GRANARY_ALWAYS_INLINE void DeleteSized(void* p, size_t size) noexcept {
  if (!TryFreeSized(p, size)) DeleteSizedSlow(p, size, 1);
}

size_t Bytes(std::align_val_t alignment) { return static_cast<size_t>(alignment); }

}  // namespace
}  // namespace granary

using namespace granary;
using std::align_val_t;
using std::nothrow_t;

GRANARY_EXPORT GRANARY_HOT void* operator new(size_t n) { return New(n); }
GRANARY_EXPORT GRANARY_HOT void* operator new[](size_t n) { return New(n); }
GRANARY_EXPORT void* operator new(size_t n, const nothrow_t&) noexcept { return NewNothrow(n); }
GRANARY_EXPORT void* operator new[](size_t n, const nothrow_t&) noexcept { return NewNothrow(n); }
GRANARY_EXPORT void* operator new(size_t n, align_val_t a) { return NewOrThrow(n, Bytes(a)); }
GRANARY_EXPORT void* operator new[](size_t n, align_val_t a) { return NewOrThrow(n, Bytes(a)); }
GRANARY_EXPORT void* operator new(size_t n, align_val_t a, const nothrow_t&) noexcept {
  return NewOrNull(n, Bytes(a));
}
GRANARY_EXPORT void* operator new[](size_t n, align_val_t a, const nothrow_t&) noexcept {
  return NewOrNull(n, Bytes(a));
}

GRANARY_EXPORT GRANARY_HOT void operator delete(void* p) noexcept { Delete(p); }
GRANARY_EXPORT GRANARY_HOT void operator delete[](void* p) noexcept { Delete(p); }
GRANARY_EXPORT void operator delete(void* p, const nothrow_t&) noexcept { Delete(p); }
GRANARY_EXPORT void operator delete[](void* p, const nothrow_t&) noexcept { Delete(p); }
GRANARY_EXPORT GRANARY_HOT void operator delete(void* p, size_t n) noexcept { DeleteSized(p, n); }
GRANARY_EXPORT GRANARY_HOT void operator delete[](void* p, size_t n) noexcept { DeleteSized(p, n); }
GRANARY_EXPORT void operator delete(void* p, align_val_t) noexcept { Delete(p); }
GRANARY_EXPORT void operator delete[](void* p, align_val_t) noexcept { Delete(p); }
GRANARY_EXPORT void operator delete(void* p, align_val_t, const nothrow_t&) noexcept { Delete(p); }
GRANARY_EXPORT void operator delete[](void* p, align_val_t, const nothrow_t&) noexcept {
  Delete(p);
}
GRANARY_EXPORT void operator delete(void* p, size_t n, align_val_t a) noexcept {
  DeleteSizedSlow(p, n, Bytes(a));
}
GRANARY_EXPORT void operator delete[](void* p, size_t n, align_val_t a) noexcept {
  DeleteSizedSlow(p, n, Bytes(a));
}

// The names in gperftools.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#endif
#define GRANARY_ALIAS(name, mangled, result, ...) \
  extern "C" __attribute__((alias(mangled), visibility("default"))) result name(__VA_ARGS__);
GRANARY_ALIAS(tc_new, "_Znwm", void*, size_t)
GRANARY_ALIAS(tc_newarray, "_Znam", void*, size_t)
GRANARY_ALIAS(tc_new_nothrow, "_ZnwmRKSt9nothrow_t", void*, size_t, const nothrow_t&)
GRANARY_ALIAS(tc_newarray_nothrow, "_ZnamRKSt9nothrow_t", void*, size_t, const nothrow_t&)
GRANARY_ALIAS(tc_new_aligned, "_ZnwmSt11align_val_t", void*, size_t, align_val_t)
GRANARY_ALIAS(tc_newarray_aligned, "_ZnamSt11align_val_t", void*, size_t, align_val_t)
GRANARY_ALIAS(tc_new_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", void*, size_t,
              align_val_t, const nothrow_t&)
GRANARY_ALIAS(tc_newarray_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t", void*, size_t,
              align_val_t, const nothrow_t&)
GRANARY_ALIAS(tc_delete, "_ZdlPv", void, void*)
GRANARY_ALIAS(tc_deletearray, "_ZdaPv", void, void*)
GRANARY_ALIAS(tc_delete_nothrow, "_ZdlPvRKSt9nothrow_t", void, void*, const nothrow_t&)
GRANARY_ALIAS(tc_deletearray_nothrow, "_ZdaPvRKSt9nothrow_t", void, void*, const nothrow_t&)
GRANARY_ALIAS(tc_delete_sized, "_ZdlPvm", void, void*, size_t)
GRANARY_ALIAS(tc_deletearray_sized, "_ZdaPvm", void, void*, size_t)
GRANARY_ALIAS(tc_delete_aligned, "_ZdlPvSt11align_val_t", void, void*, align_val_t)
GRANARY_ALIAS(tc_deletearray_aligned, "_ZdaPvSt11align_val_t", void, void*, align_val_t)
GRANARY_ALIAS(tc_delete_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t", void, void*,
              align_val_t, const nothrow_t&)
GRANARY_ALIAS(tc_deletearray_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t", void, void*,
              align_val_t, const nothrow_t&)
GRANARY_ALIAS(tc_delete_sized_aligned, "_ZdlPvmSt11align_val_t", void, void*, size_t, align_val_t)
GRANARY_ALIAS(tc_deletearray_sized_aligned, "_ZdaPvmSt11align_val_t", void, void*, size_t,
              align_val_t)
#undef GRANARY_ALIAS

extern "C" GRANARY_EXPORT int tc_set_new_mode(int mode) noexcept {
  const bool before = malloc_calls_new_handler;
  malloc_calls_new_handler = mode != 0;
  return before ? 1 : 0;
}
extern "C" GRANARY_EXPORT int tc_query_new_mode(void) noexcept {
  return malloc_calls_new_handler ? 1 : 0;
}
