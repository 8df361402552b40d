#include "arch/anchor.h"

namespace granary {

constinit Anchor anchor{.cache_index = &anchor.unregistered.concurrency_id,
                        .cache = {anchor.null_cache, anchor.null_cache}};
__thread uintptr_t thread_area = 0;

}  // namespace granary
