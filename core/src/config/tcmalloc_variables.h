// The environment variables of gperftools that set one of Granary's options.
#pragma once

#include "config/options.h"

namespace granary {

// Reports a value that cannot be parsed on stderr and returns false. `cpus` returns the number of
// caches that share a total.
bool ApplyTcmallocVariables(Options& o, unsigned (*cpus)()) noexcept;

}  // namespace granary
