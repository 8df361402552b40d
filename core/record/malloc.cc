// The malloc symbols of the C library: each calls the allocator below and records the call.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "calls.h"

using namespace granary::record;

namespace {

void* Refuse(int error) {
  errno = error;
  return nullptr;
}

// A realloc of memory from before the allocator below was found.
void* MoveEarly(const void* p, size_t size) {
  void* const moved = malloc(size);
  const size_t before = BytesAfter(p);
  return moved == nullptr ? nullptr : memcpy(moved, p, size < before ? size : before);
}

void* Move(Log& l, void* p, size_t size) {
  if (IsSampled(p)) RecordFree(l, Kind::kMoving, p);
  l.Set(Log::kInside);
  void* const moved = next.realloc(p, size);
  l.Clear(Log::kInside);
  if (IsSampled(moved)) RecordAllocation(l, Kind::kMoved, size, 1, moved);
  l.known = moved;
  return moved;
}

// realloc(p, 0) frees; some allocators also return an object of size 0.
void* MoveToNothing(Log& l, void* p) {
  if (IsSampled(p)) RecordFree(l, Kind::kFreed, p);
  l.Set(Log::kInside);
  void* const left = next.realloc(p, 0);
  l.Clear(Log::kInside);
  if (left != nullptr && IsSampled(left)) RecordAllocation(l, Kind::kAllocated, 0, 1, left);
  l.known = left;
  return left;
}

}  // namespace

extern "C" {

GRANARY_EXPORT void* malloc(size_t size) noexcept { return Malloc(size); }

GRANARY_EXPORT void free(void* p) noexcept { Free(p); }

GRANARY_EXPORT void* calloc(size_t count, size_t size) noexcept {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return Refuse(ENOMEM);
  if (!HasNext()) return AllocateEarly(bytes, 16);
  return Allocated(Kind::kZeroed, bytes, 1, [=] { return next.calloc(count, size); });
}

GRANARY_EXPORT void* realloc(void* p, size_t size) noexcept {
  if (p == nullptr) return malloc(size);
  if (IsEarly(p)) return MoveEarly(p, size);
  Log& l = log;
  if (l.Is(Log::kInside)) return next.realloc(p, size);
  return size == 0 ? MoveToNothing(l, p) : Move(l, p, size);
}

GRANARY_EXPORT void* reallocarray(void* p, size_t count, size_t size) noexcept {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return Refuse(ENOMEM);
  return realloc(p, bytes);
}

GRANARY_EXPORT void* memalign(size_t alignment, size_t size) noexcept {
  if (!HasNext()) return AllocateEarly(size, alignment);
  return Allocated(Kind::kAligned, size, alignment, [=] { return next.memalign(alignment, size); });
}

GRANARY_EXPORT void* aligned_alloc(size_t alignment, size_t size) noexcept {
  if (!HasNext()) return AllocateEarly(size, alignment);
  return Allocated(Kind::kAligned, size, alignment,
                   [=] { return next.aligned_alloc(alignment, size); });
}

GRANARY_EXPORT int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  if (!HasNext()) {
    *out = AllocateEarly(size, alignment);
    return *out == nullptr ? ENOMEM : 0;
  }
  int error = 0;
  Allocated(Kind::kAligned, size, alignment, [=, &error] {
    error = next.posix_memalign(out, alignment, size);
    return error == 0 ? *out : nullptr;
  });
  return error;
}

GRANARY_EXPORT void* valloc(size_t size) noexcept {
  if (!HasNext()) return AllocateEarly(size, PageBytes());
  return Allocated(Kind::kAligned, size, PageBytes(), [=] { return next.valloc(size); });
}

GRANARY_EXPORT void* pvalloc(size_t size) noexcept {
  if (!HasNext()) return AllocateEarly(size, PageBytes());
  return Allocated(Kind::kAligned, size, PageBytes(), [=] { return next.pvalloc(size); });
}

GRANARY_EXPORT void cfree(void* p) noexcept { free(p); }

// C23's, which the allocator below need not have.
GRANARY_EXPORT void free_sized(void* p, size_t) noexcept { free(p); }
GRANARY_EXPORT void free_aligned_sized(void* p, size_t, size_t) noexcept { free(p); }

}  // extern "C"
