// Owns the table of what sampling has seen.
#pragma once

#include "os/mutex.h"
#include "os/os.h"
#include "profile/table.h"

namespace granary {
struct Layout;
}

namespace granary::profile {

template <Os System>
class Recorder {
 public:
  constexpr Recorder() = default;

 private:
  friend struct granary::Layout;
  Mutex<System> mutex_;
  Head* table_ =
      nullptr;  // Place::kBytes from here on; nullptr until sampling is first switched on
};

}  // namespace granary::profile
