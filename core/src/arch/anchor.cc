#include "arch/anchor.h"

namespace granary {

constinit Anchor anchor{.cache_index = &anchor.unregistered.concurrency_id,
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

}  // namespace granary
