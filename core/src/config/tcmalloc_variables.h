// The variables of the environment that gperftools reads and that correspond to an option of ours.
#pragma once

#include "config/options.h"

namespace granary {

// False if a value cannot be read, which is then named on stderr. `cpus` tells how many caches
// share a total.
bool ApplyTcmallocVariables(Options& o, unsigned (*cpus)()) noexcept;

}  // namespace granary
