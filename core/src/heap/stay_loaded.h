// A library that this one is linked into, such as a plugin, stays loaded when the program closes
// it.
#pragma once

namespace granary::heap {

// Threads, the kernel and the C library keep addresses inside the library: the background thread,
// restartable sequences, handlers for fork and for the end of threads.
void StayLoaded() noexcept;

}  // namespace granary::heap
