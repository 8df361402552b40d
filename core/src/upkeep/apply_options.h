// Hands options on to the layers that keep copies of them.
#pragma once

namespace granary {

// At the start, and after an option has changed.
void ApplyOptions() noexcept;

}  // namespace granary
