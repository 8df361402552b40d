// The operators new with TCMalloc's hint of how hot the object will be (tcmalloc/new_extension.h).
// Compilers call them with the help of a memory profile. Cold objects are in an arena, so that
// whole pages become cold; granary cold finds these, and page out removes them from memory.

#include <atomic>
#include <new>

#include "arena/arenas.h"
#include "base/compiler.h"
#include "config/options.h"
#include "granary/heap.h"

enum class __hot_cold_t : uint8_t;

namespace granary {
namespace {

// Of the values, 0 is the coldest one.
constexpr auto kHotFrom = static_cast<__hot_cold_t>(128);

std::atomic<granary_heap*> cold_heap;

granary_heap* ColdHeap() noexcept {
  granary_heap* heap = cold_heap.load(std::memory_order_acquire);
  if (heap != nullptr) return heap;
  granary_heap* const created = granary_heap_create("cold", 0);
  if (created == nullptr || cold_heap.compare_exchange_strong(heap, created)) return created;
  granary_heap_destroy(created);  // another thread was first
  return heap;
}

// nullptr if the ordinary operator has to allocate. With option hardened it does: an arena seals
// small objects, but has neither the quarantine nor the guarded blocks.
void* NewCold(size_t size, size_t alignment, __hot_cold_t hint) noexcept {
  if (hint >= kHotFrom || options.hardened) return nullptr;
  granary_heap* const heap = ColdHeap();
  return heap == nullptr ? nullptr : granary_heap_aligned_alloc(heap, alignment, size);
}

size_t Bytes(std::align_val_t alignment) { return static_cast<size_t>(alignment); }

}  // namespace
}  // namespace granary

using granary::Bytes;
using granary::NewCold;
using std::align_val_t;
using std::nothrow_t;

GRANARY_EXPORT void* operator new(size_t n, __hot_cold_t hint) {
  void* const p = NewCold(n, 1, hint);
  return p != nullptr ? p : operator new(n);
}
GRANARY_EXPORT void* operator new[](size_t n, __hot_cold_t hint) {
  void* const p = NewCold(n, 1, hint);
  return p != nullptr ? p : operator new[](n);
}
GRANARY_EXPORT void* operator new(size_t n, const nothrow_t& t, __hot_cold_t hint) noexcept {
  void* const p = NewCold(n, 1, hint);
  return p != nullptr ? p : operator new(n, t);
}
GRANARY_EXPORT void* operator new[](size_t n, const nothrow_t& t, __hot_cold_t hint) noexcept {
  void* const p = NewCold(n, 1, hint);
  return p != nullptr ? p : operator new[](n, t);
}
GRANARY_EXPORT void* operator new(size_t n, align_val_t a, __hot_cold_t hint) {
  void* const p = NewCold(n, Bytes(a), hint);
  return p != nullptr ? p : operator new(n, a);
}
GRANARY_EXPORT void* operator new[](size_t n, align_val_t a, __hot_cold_t hint) {
  void* const p = NewCold(n, Bytes(a), hint);
  return p != nullptr ? p : operator new[](n, a);
}
GRANARY_EXPORT void* operator new(size_t n, align_val_t a, const nothrow_t& t,
                                  __hot_cold_t hint) noexcept {
  void* const p = NewCold(n, Bytes(a), hint);
  return p != nullptr ? p : operator new(n, a, t);
}
GRANARY_EXPORT void* operator new[](size_t n, align_val_t a, const nothrow_t& t,
                                    __hot_cold_t hint) noexcept {
  void* const p = NewCold(n, Bytes(a), hint);
  return p != nullptr ? p : operator new[](n, a, t);
}
