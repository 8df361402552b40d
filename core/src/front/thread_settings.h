// What a thread has asked for beyond the ordinary: exact counts of its bytes, no caches, an arena
// of its own. Such a thread leads to the null cache, so that each of its calls takes the slow path,
// where this is looked at; the fast path of all others knows nothing of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arch/anchor.h"

namespace granary {

// Whether a thread's allocations are sampled: as prof.thread_active_init says at its first sample,
// unless the thread said otherwise before.
enum class Sampled : uint8_t { kNotAsked, kYes, kNo };

struct ThreadSettings {
  static constexpr size_t kMostName = 16;

  uint64_t allocated;  // bytes, since the thread first asked
  uint64_t deallocated;
  uint64_t peak;       // the most of allocated - deallocated since it was last reset
  uint64_t peak_from;  // what that difference was at the reset
  uintptr_t area;      // thread_area of the ordinary
  uint32_t arena;      // 0 for the heap that all share
  bool uncached;
  // Also of a thread that is ordinary otherwise:
  Sampled sampled;
  bool in_hook;  // calls a function of the program's that is told of samples, and takes none
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

// From here on the calling thread is special; its bytes are counted.
void UseThreadSettings() noexcept;

// Within it, a special thread is an ordinary one.
class Ordinary {
 public:
  Ordinary() { thread_area = thread_settings.area; }
  // The thread may have been made known meanwhile, or have given its cache up.
  ~Ordinary() {
    thread_settings.area = thread_area;
    thread_area = SpecialArea();
  }
  Ordinary(const Ordinary&) = delete;
  Ordinary& operator=(const Ordinary&) = delete;
};

}  // namespace granary
