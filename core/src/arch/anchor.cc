#include "arch/anchor.h"

namespace granary {

namespace {

constexpr auto IndexOf(RestartArea& area) { return &area.concurrency_id; }

}  // namespace

constinit Anchor anchor{.cache_index = IndexOf(anchor.unregistered),
                        .cache = {anchor.null_cache, anchor.null_cache}};
__thread uintptr_t thread_area = 0;

// A thread that reads the table meanwhile gets one list or the other.
void UseReady(SizeClass c, bool use) noexcept {
  __atomic_store_n(&anchor.uses_ready[c], use, __ATOMIC_RELEASE);
  const auto list = static_cast<uint16_t>(use ? ReadyList(c) : c);
  for (size_t row = 0; row < kFineLookup.size(); ++row) {
    const bool serves = row > 0 || anchor.fine_list[0] != 0;  // malloc(0), after CacheEmpty
    if (kFineLookup[row] == c && serves)
      __atomic_store_n(&anchor.fine_list[row], list, __ATOMIC_RELAXED);
  }
}

void SetReadyLists(ReadyLists which) noexcept {
  anchor.ready_lists = which;
  const bool use = which != ReadyLists::kNever;
  for (SizeClass c = 1; c <= kLastReady; ++c) {
    if (UsesReady(c) != use) UseReady(c, use);
  }
}

void CacheEmpty() noexcept {
  __atomic_store_n(&anchor.fine_list[0], anchor.fine_list[1], __ATOMIC_RELAXED);
}

// List 0 is always empty, and no address has all bits of `zero_bits` clear but null.
void TakeSlowPaths() noexcept {
  for (uint16_t& list : anchor.fine_list) __atomic_store_n(&list, uint16_t{0}, __ATOMIC_RELAXED);
  anchor.coarse_class.fill(0);
  anchor.medium_class.fill(0);
  for (uint64_t& bits : anchor.zero_bits) __atomic_store_n(&bits, ~uint64_t{0}, __ATOMIC_RELAXED);
}

}  // namespace granary
