// The clocks of a recording.
#pragma once

#include <ctime>

#include "format.h"

namespace granary::record {

// A tick is 0.1 to 1.5 microseconds, by processor.
inline uint64_t Ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc() >> 10;
#elif defined(__aarch64__)
  uint64_t count;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count >> 5;
#else
#error "the recorder has no clock for this processor"
#endif
}

inline uint64_t Nanoseconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

inline Stamp Now() { return {Ticks(), Nanoseconds(CLOCK_MONOTONIC)}; }

}  // namespace granary::record
