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
Function Below(const char* symbol) {
  if (operators == Operators::kUnknown) FindOperators();
  return reinterpret_cast<Function>(FindBelow(symbol));
}

void* WithoutOperator(size_t size, size_t alignment) {
  void* const p = alignment <= 16 ? malloc(size) : memalign(alignment, size);
  if (p == nullptr) __builtin_trap();  // nothing here can throw std::bad_alloc
  return p;
}

template <class Function>
void Keep(Function& below, Function found) {
  __atomic_store_n(&below, found, __ATOMIC_RELAXED);
}

}  // namespace

// Each symbol has a pointer to the operator below, and at first to a function that looks for it.
// Where that is the C++ library's, malloc is called instead, unless it fails.
#define NEW(symbol, parameters, arguments, alignment)                                         \
  static void* Find##symbol parameters;                                                       \
  static void*(*below##symbol)parameters = Find##symbol;                                      \
  static void* Without##symbol parameters { return WithoutOperator(size, alignment); }        \
  static void* Find##symbol parameters {                                                      \
    auto* const found = Below<void*(*)parameters>(#symbol);                                   \
    Keep(below##symbol, found == nullptr ? Without##symbol : found);                          \
    return below##symbol arguments;                                                           \
  }                                                                                           \
  extern "C" GRANARY_EXPORT void* symbol parameters {                                         \
    if ((alignment) == 1 && OperatorsCallMalloc()) {                                          \
      void* const p = DirectMalloc(size + (size == 0));                                       \
      if (!IsSampled(p)) return p; /* null is sampled */                                      \
      if (AllocatedSampled(size + (size == 0), p) != nullptr) return p;                       \
    }                                                                                         \
    log.known = nullptr;                                                                      \
    void* const p = below##symbol arguments;                                                  \
    if (!IsSampled(p)) return p;                                                              \
    return (alignment) == 1 ? AllocatedSampled(size, p) : AlignedSampled(size, alignment, p); \
  }
#define DELETE(symbol, parameters, arguments)                        \
  static void Find##symbol parameters;                               \
  static void(*below##symbol) parameters = Find##symbol;             \
  static void Without##symbol parameters { free(p); }                \
  static void Find##symbol parameters {                              \
    auto* const found = Below<void(*) parameters>(#symbol);          \
    Keep(below##symbol, found == nullptr ? Without##symbol : found); \
    below##symbol arguments;                                         \
  }                                                                  \
  [[gnu::noinline]] static void Freed##symbol parameters {           \
    Freed(p, [=] { below##symbol arguments; });                      \
  }                                                                  \
  extern "C" GRANARY_EXPORT void symbol parameters noexcept {        \
    if (OperatorsCallMalloc()) return Free(p);                       \
    if (!IsSampled(p)) return below##symbol arguments;               \
    Freed##symbol arguments;                                         \
  }
#pragma GCC diagnostic ignored "-Wunused-parameter"  // of a function Without
#include "operators.def"
