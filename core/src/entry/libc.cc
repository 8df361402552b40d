// The malloc symbols of the C library, each with a line or two on top of heap/.

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "entry/new_mode.h"
#include "heap/fast.h"

namespace granary {

using heap::TryAllocate;
using heap::TryFree;
using heap::TryFreeSized;

namespace {

bool IsPowerOfTwo(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

void* Refuse(int error) {
  errno = error;
  return nullptr;
}

size_t Page() {
  heap::EnsureInit();
  return layers.pages().OsPage();
}

// free must not change errno. The system calls of this library do not, but the pthread functions
// that a first call uses may.
GRANARY_NOINLINE void FreeSlow(void* p) {
  const int error = errno;
  heap::Free(p);
  errno = error;
}

// A function of its own, so that the request stays in its register on the fast path.
GRANARY_NOINLINE void* AllocateSlow(size_t size) {
  return InNewMode([size] { return heap::Allocate(size); });
}

void* AllocateAligned(size_t size, size_t alignment) {
  return InNewMode([size, alignment] { return heap::AllocateAligned(size, alignment); });
}

// realloc(p, 0), unless the option zero_realloc lets it return an object of size 0.
GRANARY_NOINLINE void* FreeInRealloc(void* p) {
  if (options.zero_realloc == 2) Die("realloc to 0 bytes, which zero_realloc:abort forbids");
  if (!TryFree(p)) FreeSlow(p);
  return nullptr;
}

GRANARY_NOINLINE void FreeSizedSlow(void* p, size_t size, size_t alignment) {
  const int error = errno;
  heap::FreeSized(p, size, alignment);
  errno = error;
}

}  // namespace
}  // namespace granary

using namespace granary;

extern "C" {

GRANARY_EXPORT GRANARY_HOT void* malloc(size_t size) noexcept {
  if (void* p = TryAllocate(size)) return p;
  return AllocateSlow(size);
}

GRANARY_EXPORT GRANARY_HOT void free(void* p) noexcept {
  if (TryFree(p)) return;
  FreeSlow(p);
}

GRANARY_EXPORT void* calloc(size_t count, size_t size) noexcept {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return Refuse(ENOMEM);
  return InNewMode([bytes] { return heap::AllocateZeroed(bytes); });
}

GRANARY_EXPORT void* realloc(void* p, size_t size) noexcept {
  if (p == nullptr) return malloc(size);
  if (size == 0 && options.zero_realloc != 1) return FreeInRealloc(p);
  return InNewMode([p, size] { return heap::Reallocate(p, size); });
}

GRANARY_EXPORT void* reallocarray(void* p, size_t count, size_t size) noexcept {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return Refuse(ENOMEM);
  return realloc(p, bytes);
}

GRANARY_EXPORT void* aligned_alloc(size_t alignment, size_t size) noexcept {
  if (!IsPowerOfTwo(alignment)) return Refuse(EINVAL);
  return AllocateAligned(size, alignment);
}

GRANARY_EXPORT int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  if (!IsPowerOfTwo(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const int error = errno;
  void* const p = AllocateAligned(size, alignment);
  if (p == nullptr) return ENOMEM;  // in errno as well: programs check either
  errno = error;
  *out = p;
  return 0;
}

// An alignment that is no power of two is rounded up to one.
GRANARY_EXPORT void* memalign(size_t alignment, size_t size) noexcept {
  if (alignment > SIZE_MAX / 2 + 1) return Refuse(EINVAL);
  return AllocateAligned(size, alignment == 0 ? 1 : std::bit_ceil(alignment));
}

GRANARY_EXPORT void* valloc(size_t size) noexcept { return AllocateAligned(size, Page()); }

GRANARY_EXPORT void* pvalloc(size_t size) noexcept {
  const size_t page = Page();
  if (size > SIZE_MAX - page) return Refuse(ENOMEM);
  return AllocateAligned(size == 0 ? page : RoundUp(size, page), page);
}

GRANARY_EXPORT size_t malloc_usable_size(void* p) noexcept {
  return p == nullptr ? 0 : heap::UsableSize(p, "malloc_usable_size");
}

GRANARY_EXPORT size_t malloc_size(const void* p) noexcept {
  return p == nullptr ? 0 : heap::UsableSize(p, "malloc_size");
}

GRANARY_EXPORT size_t malloc_good_size(size_t size) noexcept { return heap::GoodSize(size, 1); }

GRANARY_EXPORT void cfree(void* p) noexcept { free(p); }

GRANARY_EXPORT void free_sized(void* p, size_t size) noexcept {
  if (TryFreeSized(p, size)) return;
  FreeSizedSlow(p, size, 1);
}

GRANARY_EXPORT void free_aligned_sized(void* p, size_t alignment, size_t size) noexcept {
  FreeSizedSlow(p, size, alignment);
}

// glibc's internal names, which some programs call to bypass an interposed malloc.
GRANARY_EXPORT void* __libc_malloc(size_t size) noexcept { return malloc(size); }
GRANARY_EXPORT void __libc_free(void* p) noexcept { free(p); }
GRANARY_EXPORT void* __libc_calloc(size_t count, size_t size) noexcept {
  return calloc(count, size);
}
GRANARY_EXPORT void* __libc_realloc(void* p, size_t size) noexcept { return realloc(p, size); }
GRANARY_EXPORT void* __libc_memalign(size_t alignment, size_t size) noexcept {
  return memalign(alignment, size);
}
GRANARY_EXPORT void* __libc_valloc(size_t size) noexcept { return valloc(size); }
GRANARY_EXPORT void* __libc_pvalloc(size_t size) noexcept { return pvalloc(size); }
GRANARY_EXPORT void __libc_cfree(void* p) noexcept { free(p); }
GRANARY_EXPORT int __posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  return posix_memalign(out, alignment, size);
}

// The names in builds of jemalloc with a prefix.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#endif
#define GRANARY_PREFIXED(name)                                                   \
  __attribute__((alias(#name), visibility("default"))) decltype(name) je_##name; \
  __attribute__((alias(#name), visibility("default"))) decltype(name) _rjem_##name;
GRANARY_PREFIXED(malloc)
GRANARY_PREFIXED(free)
GRANARY_PREFIXED(calloc)
GRANARY_PREFIXED(realloc)
GRANARY_PREFIXED(aligned_alloc)
GRANARY_PREFIXED(posix_memalign)
GRANARY_PREFIXED(memalign)
GRANARY_PREFIXED(valloc)
GRANARY_PREFIXED(pvalloc)
GRANARY_PREFIXED(malloc_usable_size)
GRANARY_PREFIXED(free_sized)
GRANARY_PREFIXED(free_aligned_sized)
#undef GRANARY_PREFIXED

// gperftools' names.
// malloc without the new handler, in spite of tc_set_new_mode.
GRANARY_EXPORT void* tc_malloc_skip_new_handler(size_t size) noexcept {
  if (void* p = TryAllocate(size)) return p;
  return heap::Allocate(size);
}

#define GRANARY_ALIAS(alias_name, name) \
  __attribute__((alias(#name), visibility("default"))) decltype(name) alias_name;
GRANARY_ALIAS(tc_malloc, malloc)
GRANARY_ALIAS(tc_free, free)
GRANARY_ALIAS(tc_free_sized, free_sized)
GRANARY_ALIAS(tc_free_aligned_sized, free_aligned_sized)
GRANARY_ALIAS(tc_calloc, calloc)
GRANARY_ALIAS(tc_realloc, realloc)
GRANARY_ALIAS(tc_cfree, cfree)
GRANARY_ALIAS(tc_memalign, memalign)
GRANARY_ALIAS(tc_posix_memalign, posix_memalign)
GRANARY_ALIAS(tc_valloc, valloc)
GRANARY_ALIAS(tc_pvalloc, pvalloc)
GRANARY_ALIAS(tc_malloc_size, malloc_usable_size)
#undef GRANARY_ALIAS

}  // extern "C"
