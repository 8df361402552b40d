// Settings that a thread made for itself: exact counts of its bytes, no caches, an arena of its
// own. The thread_area of such a thread leads to the null cache, so that each of its calls takes
// the slow path, which applies the settings. The fast path does not test for them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arch/anchor.h"

namespace granary {

// Whether a thread's allocations are sampled. A thread that did not choose takes the value of
// prof.thread_active_init at its first sample.
enum class Sampled : uint8_t { kNotAsked, kYes, kNo };

struct ThreadSettings {
  static constexpr size_t kMostName = 16;

  uint64_t allocated;  // bytes, since the counts were first read
  uint64_t deallocated;
  uint64_t peak;       // the most of allocated - deallocated since it was last reset
  uint64_t peak_from;  // what that difference was at the reset
  uintptr_t area;      // the thread_area without settings
  uint32_t arena;      // 0 for the shared heap
  bool uncached;
  // The rest does not make a thread take the slow path:
  Sampled sampled;
  bool in_hook;          // runs a hook of profiling, and takes no samples meanwhile
  char name[kMostName];  // in profiles, as jemalloc has them

  void Allocated(size_t bytes) {
    allocated += bytes;
    const uint64_t live = allocated - deallocated - peak_from;
    if (static_cast<int64_t>(live) > static_cast<int64_t>(peak)) peak = live;
  }
  void Freed(size_t bytes) { deallocated += bytes; }
};

extern __thread ThreadSettings thread_settings
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern RestartArea special_area __attribute__((visibility("hidden")));

inline uintptr_t SpecialArea() {
  return reinterpret_cast<uintptr_t>(&special_area) -
         reinterpret_cast<uintptr_t>(&anchor.unregistered);
}
inline bool HasThreadSettings() { return thread_area == SpecialArea(); }

// From here on the calling thread has settings, and its bytes are counted.
void UseThreadSettings() noexcept;

// While it exists, the settings of the calling thread do not apply.
class Ordinary {
 public:
  Ordinary() { thread_area = thread_settings.area; }
  // The thread may have been registered meanwhile, or have lost its cache.
  ~Ordinary() {
    thread_settings.area = thread_area;
    thread_area = SpecialArea();
  }
  Ordinary(const Ordinary&) = delete;
  Ordinary& operator=(const Ordinary&) = delete;
};

}  // namespace granary
