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

// malloc itself in place of a function that only calls it.
auto MallocOr(void* (*)(size_t)) { return direct.malloc; }
template <class Function>
Function MallocOr(Function calls) {
  return calls;
}
auto FreeOr(void (*)(void*)) { return direct.free; }
template <class Function>
Function FreeOr(Function calls) {
  return calls;
}

template <class Function>
void Keep(Function& below, Function found) {
  __atomic_store_n(&below, found, __ATOMIC_RELEASE);
}

}  // namespace

#define ALL_OF(...) __VA_ARGS__
#define IS_PLAIN(alignment) (#alignment[0] == '1')

// Each symbol calls through a pointer: the operator below, or malloc in place of the C++ library's
// operator, and at first a function that looks for it. If malloc fails, that operator is called.
// What is done for sampled objects has functions of its own, so that the symbols save no registers.
#define NEW(symbol, parameters, arguments, alignment)                                     \
  static void* Find##symbol parameters;                                                   \
  static void*(*below##symbol)parameters = Find##symbol;                                  \
  static void*(*operator##symbol)parameters;                                              \
  static void* Without##symbol parameters { return WithoutOperator(size, alignment); }    \
  static void* Malloc##symbol parameters { return direct.malloc(size); }                  \
  static void* Find##symbol parameters {                                                  \
    auto* const found = Below<void*(*)parameters>(#symbol);                               \
    Keep(operator##symbol, found == nullptr ? Without##symbol : found);                   \
    const bool is_malloc = IS_PLAIN(alignment) && OperatorsCallMalloc();                  \
    Keep(below##symbol, is_malloc ? MallocOr(Malloc##symbol) : operator##symbol);         \
    return below##symbol arguments;                                                       \
  }                                                                                       \
  [[gnu::noinline]] static void* Sampled##symbol(ALL_OF parameters, void* p) {            \
    if (!IS_PLAIN(alignment)) return AlignedSampled(size, alignment, p);                  \
    if (!OperatorsCallMalloc()) return AllocatedSampled(size, p);                         \
    if (p != nullptr) return AllocatedSampled(size + (size == 0), p);                     \
    p = operator##symbol arguments;                                                       \
    return IsSampled(p) ? AllocatedSampled(size, p) : p;                                  \
  }                                                                                       \
  extern "C" GRANARY_EXPORT void* symbol parameters {                                     \
    log.known = nullptr;                                                                  \
    void* const p = below##symbol arguments;                                              \
    return IsSampled(p) ? Sampled##symbol(ALL_OF arguments, p) : p; /* null is sampled */ \
  }
#define DELETE(symbol, parameters, arguments)                                  \
  static void Find##symbol parameters;                                         \
  static void(*below##symbol) parameters = Find##symbol;                       \
  static void Without##symbol parameters { free(p); }                          \
  static void Free##symbol parameters { direct.free(p); }                      \
  static void Find##symbol parameters {                                        \
    auto* const found = Below<void(*) parameters>(#symbol);                    \
    auto* const otherwise = found == nullptr ? Without##symbol : found;        \
    const bool is_free = OperatorsCallMalloc();                                \
    Keep(below##symbol, is_free ? FreeOr(Free##symbol) : otherwise);           \
    below##symbol arguments;                                                   \
  }                                                                            \
  [[gnu::noinline]] static void Sampled##symbol parameters {                   \
    if (OperatorsCallMalloc()) return FreeSampled(p);                          \
    Freed(p, [=] { below##symbol arguments; });                                \
  }                                                                            \
  extern "C" GRANARY_EXPORT void symbol parameters noexcept {                  \
    return IsSampled(p) ? Sampled##symbol arguments : below##symbol arguments; \
  }
#pragma GCC diagnostic ignored "-Wunused-parameter"  // of a function Without
#include "operators.def"
