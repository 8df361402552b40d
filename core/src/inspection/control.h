// Serves each request from outside the process (upkeep/requests.h).
#pragma once

#include "base/compiler.h"
#include "upkeep/requests.h"

namespace granary {

GRANARY_COLD void Serve(Requests& requests) noexcept;

}  // namespace granary
