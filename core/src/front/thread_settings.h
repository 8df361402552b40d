// Settings that a thread made for itself: exact counts of its bytes, no cache, or an arena. The
// thread_area of such a thread leads to the null cache. So each of its calls takes the slow path,
// which applies the settings, and the fast path needs no test for them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arch/anchor.h"

namespace granary {

// Whether the allocations of a thread are sampled. An undecided thread uses the value of
// prof.thread_active_init at its first sample.
enum class Sampled : uint8_t { kUndecided, kYes, kNo };

struct ThreadSettings {
  static constexpr size_t kMaxName = 16;

  uint64_t allocated;    // bytes since the first read of the counts
  uint64_t deallocated;  // bytes since the first read of the counts
  uint64_t peak;         // of allocated - deallocated - peak_from since the last reset
  uint64_t peak_from;    // allocated - deallocated at the last reset
  uintptr_t area;        // the thread_area without settings
  uint32_t arena;        // 0 for the shared heap
  bool uncached;
  // The members below do not make a thread take the slow path:
  Sampled sampled;
  bool in_hook;         // the thread runs a profiling hook and records no samples
  char name[kMaxName];  // in profiles; jemalloc's thread.prof.name

  void Allocated(size_t bytes) {
    allocated += bytes;
    const uint64_t live = allocated - deallocated - peak_from;
    if (static_cast<int64_t>(live) > static_cast<int64_t>(peak)) peak = live;
  }
  void Freed(size_t bytes) { deallocated += bytes; }
};

extern __thread ThreadSettings thread_settings
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern RestartArea settings_area __attribute__((visibility("hidden")));

inline uintptr_t SettingsArea() {
  return reinterpret_cast<uintptr_t>(&settings_area) -
         reinterpret_cast<uintptr_t>(&anchor.unregistered);
}
inline bool HasThreadSettings() { return thread_area == SettingsArea(); }

// From this call on the calling thread has settings, and its bytes are counted.
void UseThreadSettings() noexcept;

// While it exists, the settings of the calling thread do not apply.
class SuspendSettings {
 public:
  SuspendSettings() { thread_area = thread_settings.area; }
  // The thread may have registered or lost its cache since the constructor.
  ~SuspendSettings() {
    thread_settings.area = thread_area;
    thread_area = SettingsArea();
  }
  SuspendSettings(const SuspendSettings&) = delete;
  SuspendSettings& operator=(const SuspendSettings&) = delete;
};

}  // namespace granary
