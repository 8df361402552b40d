#include "os/mutex.h"

namespace granary {

__thread uint32_t locks_held = 0;

}  // namespace granary
