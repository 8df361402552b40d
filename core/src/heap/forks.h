// Fork: the locks of all layers are held while a process forks, so that the child finds them free.
#pragma once

namespace granary::heap {

// Called as early as possible: the handlers of this library are then the last to run before a fork,
// and the first after it.
void WatchForks() noexcept;

}  // namespace granary::heap
