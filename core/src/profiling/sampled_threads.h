// Which threads are sampled, and how deep their stacks are read.
#pragma once

#include <cstddef>

namespace granary::sampled_threads {

// Whether allocations of the calling thread, and of threads not sampled yet, are sampled.
bool ThreadIsSampled() noexcept;
bool NewThreadsAreSampled() noexcept;
void SetNewThreadsAreSampled(bool on) noexcept;
// Whether to take the sample that is due on the calling thread; the thread keeps the answer.
bool TakesSamples() noexcept;
// The number of return addresses to keep of a stack.
size_t MostDepth() noexcept;

}  // namespace granary::sampled_threads
