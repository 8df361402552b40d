// The options of a process, from everything that may set them.
#pragma once

namespace granary {

// Once, before the layers are made. Ends the program if a row is wrong and abort_conf is set.
void LoadSettings() noexcept;

}  // namespace granary
