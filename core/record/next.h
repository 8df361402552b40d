// The allocator below: the next definition of each symbol in the loader's order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary::record {

struct Next {
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*memalign)(size_t, size_t);
  void* (*valloc)(size_t);
  void* (*pvalloc)(size_t);
  size_t (*usable_size)(void*);  // may be missing
};

extern Next next [[gnu::visibility("hidden")]];

// What most calls need, without a question: until `next` is complete, and for free as long as there
// are early objects, these are functions that ask.
struct Direct {
  void* (*malloc)(size_t);
  void (*free)(void*);
};
extern Direct direct [[gnu::visibility("hidden")]];

// True when `next` is complete. The loader allocates while it resolves the symbols: those calls get
// false, and memory from Early, which is never freed.
bool FindNext();
inline bool HasNext() {
  return __builtin_expect(__atomic_load_n(&next.malloc, __ATOMIC_ACQUIRE) != nullptr, 1) ||
         FindNext();
}

inline constexpr size_t kEarlyBytes = 64 << 10;
extern char early[kEarlyBytes] [[gnu::visibility("hidden")]];
void* AllocateEarly(size_t size, size_t alignment);
inline bool IsEarly(const void* p) {
  return static_cast<size_t>(static_cast<const char*>(p) - early) < kEarlyBytes;
}
size_t BytesAfter(const void* early);  // an upper bound of its size
size_t PageBytes();

// The definition of a symbol that the recorder stands before, or nullptr.
void* FindBelow(const char* symbol);

// Whose operators are below: the C++ library's call malloc, those of an allocator bypass it.
enum class Operators : uint8_t { kUnknown, kOfLibrary, kOfAllocator };
extern Operators operators [[gnu::visibility("hidden")]];
Operators FindOperators();
inline bool OperatorsCallMalloc() {
  return __atomic_load_n(&operators, __ATOMIC_RELAXED) == Operators::kOfLibrary;
}

}  // namespace granary::record
