// Which threads are sampled, and the maximum depth of their stacks.
#pragma once

#include <cstddef>

namespace granary::sampled_threads {

// Whether the allocations of the calling thread, and of threads without a setting, are sampled.
bool ThreadIsSampled() noexcept;
bool NewThreadsAreSampled() noexcept;
void SetNewThreadsAreSampled(bool on) noexcept;
// Whether to take the sample that is due on the calling thread. The thread keeps the result.
bool TakesSamples() noexcept;
// The maximum number of return addresses in a stack.
size_t MostDepth() noexcept;

}  // namespace granary::sampled_threads
