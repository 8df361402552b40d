// C++'s operators. Where the allocator below has its own, they bypass malloc. Where the C++
// library's are below, which call malloc, malloc itself is called here: one call less.

#include "base/compiler.h"
#include "calls.h"

extern "C" void* memalign(size_t, size_t) noexcept;
extern "C" void* malloc(size_t) noexcept;
extern "C" void free(void*) noexcept;

namespace {

using namespace granary::record;

// The next definition. nullptr: the program loaded its C++ library where this one cannot find it.
template <class Function>
Function Below(Function& known, const char* symbol) {
  Function found = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (__builtin_expect(found == nullptr, 0)) {
    found = reinterpret_cast<Function>(FindBelow(symbol));
    __atomic_store_n(&known, found, __ATOMIC_RELAXED);
  }
  return found;
}

void* WithoutOperator(size_t size, size_t alignment) {
  void* const p = alignment <= 16 ? malloc(size) : memalign(alignment, size);
  if (p == nullptr) __builtin_trap();  // nothing here can throw std::bad_alloc
  return p;
}

// What the C++ library's operator does, unless malloc fails.
inline void* ByMalloc(size_t size) {
  size += size == 0;
  return Allocated(Kind::kAllocated, size, 1, [=] { return next.malloc(size); });
}

inline void ByFree(void* p) {
  if (IsEarly(p)) return;
  Freeing(p);
  next.free(p);
}

}  // namespace

#define NEW(symbol, parameters, arguments, alignment)                         \
  extern "C" GRANARY_EXPORT void* symbol parameters {                         \
    if (OperatorsCallMalloc() && (alignment) == 1) {                          \
      if (void* const p = ByMalloc(size); p != nullptr) return p;             \
    }                                                                         \
    static void*(*known)parameters;                                           \
    auto* const below = Below(known, #symbol);                                \
    if (below == nullptr) return WithoutOperator(size, alignment);            \
    const Kind kind = (alignment) == 1 ? Kind::kAllocated : Kind::kAligned;   \
    return Allocated(kind, size, alignment, [=] { return below arguments; }); \
  }
#define DELETE(symbol, parameters, arguments)                 \
  extern "C" GRANARY_EXPORT void symbol parameters noexcept { \
    if (OperatorsCallMalloc()) return ByFree(p);              \
    static void(*known) parameters;                           \
    auto* const below = Below(known, #symbol);                \
    if (below == nullptr) return free(p);                     \
    if (!IsSampled(p)) return below arguments;                \
    Freed(p, [=] { below arguments; });                       \
  }
#include "operators.def"
