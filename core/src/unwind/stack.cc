#include "unwind/stack.h"

#include <sys/auxv.h>

namespace granary::unwind {
namespace {

// First page and number of pages in one word, because a signal may arrive between two stores.
struct Known {
  static constexpr unsigned kCountBits = 24;

  uintptr_t begin, end;

  static Known From(uint64_t word) {
    const uint64_t first = word >> kCountBits;
    return {first * kMinOsPage, (first + (word & ((1u << kCountBits) - 1))) * kMinOsPage};
  }
  uint64_t Word() const { return begin / kMinOsPage << kCountBits | (end - begin) / kMinOsPage; }
  bool Holds(uintptr_t address) const { return address >= begin && address < end; }
};

__thread uint64_t known_word __attribute__((tls_model("initial-exec"))) = 0;
__thread uint8_t failures __attribute__((tls_model("initial-exec"))) = 0;

// A thread whose stack pointer is mostly on other stacks stops trying.
constexpr uint8_t kMostFailures = 4;
constexpr uintptr_t kMostPages = 256;
constexpr uintptr_t kMostBytes = uintptr_t{64} << 20;

uintptr_t PageOf(uintptr_t address) { return address & ~(uintptr_t{kMinOsPage} - 1); }

// The end of the stack that contains `sp`, if it is the thread's own stack. C libraries put the
// thread's descriptor above the stacks that they make. The kernel puts the program's name above the
// first stack.
uintptr_t OwnEnd(uintptr_t sp) {
  const auto descriptor = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
  const uintptr_t name = getauxval(AT_EXECFN);
  uintptr_t end = 0;
  for (const uintptr_t above : {descriptor, name}) {
    if (above > sp && above - sp < kMostBytes && (end == 0 || above < end)) end = above;
  }
  return PageOf(end);
}

bool AllReadable(uintptr_t begin, uintptr_t end) {
  if ((end - begin) / kMinOsPage > kMostPages) return false;
  for (uintptr_t page = begin; page < end; page += kMinOsPage) {
    if (!Linux::IsReadable(reinterpret_cast<const void*>(page))) return false;
  }
  return true;
}

// The thread's own stack from the page of `sp` on; empty if `sp` is not known to be on it.
Known Learn(uintptr_t sp, Known known) {
  const uintptr_t begin = PageOf(sp);
  uintptr_t end = OwnEnd(sp);
  if (end > begin) {
    const bool longer = known.end == end && known.begin > begin;
    if (AllReadable(begin, longer ? known.begin : end)) return {begin, end};
  }
  ++failures;
  return {0, 0};
}

}  // namespace

Stack::Stack(uintptr_t sp) noexcept : sp_(sp), page_(kNoPage) {
  Known known = Known::From(known_word);
  if (!known.Holds(sp) && failures < kMostFailures) {
    known = Learn(sp, known);
    if (known.end != 0) known_word = known.Word();
  }
  if (known.Holds(sp)) own_end_ = known.end;
}

}  // namespace granary::unwind
