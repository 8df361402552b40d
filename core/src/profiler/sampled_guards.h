// Sampled guards: with option guard_sample, one allocation in so many bytes is beside a page
// without access, and its page loses access when it is freed. An invalid access ends the program
// with a report of three stacks: of the access, the allocation and the free.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"

namespace granary::sampled_guards {

// The mean number of bytes between two guarded allocations; 0 if there are none.
uint64_t Rate() noexcept;
// Makes the pool and installs the handler of SIGSEGV, or takes the handler away, as the option
// says. False if nothing is to be done: guards are off and were never on, or the system refuses.
// One caller at a time.
GRANARY_COLD bool Prepare() noexcept;

// An object of `size` bytes in the pool; nullptr if guards are off or the pool has no room.
GRANARY_COLD void* Allocate(size_t size) noexcept;

// For addresses in the pool; Free and SizeOf abort with a report if no live object begins at p.
bool Holds(const void* p) noexcept;
GRANARY_COLD void Free(void* p) noexcept;
GRANARY_COLD size_t SizeOf(const void* p, const char* verb) noexcept;

}  // namespace granary::sampled_guards
