// What the allocator does at the turns of a process's life.
#pragma once

namespace granary {

// Once, right after the heap is ready, with no lock held.
void OnFirstUse() noexcept;

}  // namespace granary
