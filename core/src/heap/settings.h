// Loads the options of a process from all their sources.
#pragma once

namespace granary {

// Called once, before the layers are made. Aborts if a row is wrong and abort_conf is set.
void LoadSettings() noexcept;

}  // namespace granary
