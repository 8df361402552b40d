// Fork: the forking thread holds the locks of all layers, so that the child finds them free.
#pragma once

namespace granary::heap {

// Called as early as possible, so that this library's handlers run last before a fork and first
// after it.
void WatchForks() noexcept;

}  // namespace granary::heap
