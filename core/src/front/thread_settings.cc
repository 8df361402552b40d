#include "front/thread_settings.h"

#include "front/threads.h"

namespace granary {

constinit __thread ThreadSettings thread_settings{};
RestartArea settings_area{.cpu_id = -1, .concurrency_id = -1};

void UseThreadSettings() noexcept {
  if (HasThreadSettings()) return;
  if (thread_area == 0) threads.Register();
  thread_settings.area = thread_area;
  thread_area = SettingsArea();
}

}  // namespace granary
