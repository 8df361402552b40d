#include "entry/traits.h"

#include "entry/heap.h"

namespace granary {

constinit __thread Traits traits{};
RestartArea special_area{.cpu_id = -1, .concurrency_id = -1};

void BecomeSpecial() noexcept {
  if (IsSpecial()) return;
  if (thread_area == 0) threads.Register();
  traits.area = thread_area;
  thread_area = SpecialArea();
}

}  // namespace granary
