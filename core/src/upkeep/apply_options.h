// Copies options to the layers that keep copies of them.
#pragma once

namespace granary {

// Called at the start, and after an option has changed.
void ApplyOptions() noexcept;

}  // namespace granary
