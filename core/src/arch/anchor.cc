#include "arch/anchor.h"

namespace granary {

namespace {

constexpr auto IndexOf(RestartArea& area) { return &area.concurrency_id; }

}  // namespace

constinit Anchor anchor{.cache_index = IndexOf(anchor.unregistered),
                        .cache = {anchor.null_cache, anchor.null_cache}};
__thread uintptr_t thread_area = 0;

// A thread that reads the table meanwhile gets one list or the other; both are empty.
void UseReadyLists(bool use) noexcept {
  if (use == anchor.ready_lists) return;
  const auto lists = MakeFineLists(use);
  for (size_t row = 0; row < lists.size(); ++row) {
    __atomic_store_n(&anchor.fine_list[row], lists[row], __ATOMIC_RELAXED);
  }
  anchor.ready_lists = use;
}

// List 0 is always empty, and no address has all bits of `zero_bits` clear but null.
void TakeSlowPaths() noexcept {
  for (uint16_t& list : anchor.fine_list) __atomic_store_n(&list, uint16_t{0}, __ATOMIC_RELAXED);
  anchor.coarse_class.fill(0);
  anchor.medium_class.fill(0);
  for (uint64_t& bits : anchor.zero_bits) __atomic_store_n(&bits, ~uint64_t{0}, __ATOMIC_RELAXED);
}

}  // namespace granary
