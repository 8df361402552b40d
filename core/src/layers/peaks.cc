#include "layers/peaks.h"

#include "heap/heap.h"
#include "reflect/measure.h"

namespace granary {

void Peaks::Look() noexcept {
  const size_t used = heap.pages().used_bytes();
  const size_t part = used / kParts;
  const size_t least = kStep + heap.front().Caches() * kStepOfCache;
  beyond_.store(used + (part > least ? part : least) - kStep, std::memory_order_relaxed);
  const uint64_t now = LiveBytes();
  uint64_t most = live_.load(std::memory_order_relaxed);
  while (now > most && !live_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

void Peaks::Reset() noexcept {
  heap.pages().ResetPeaks();
  live_.store(0, std::memory_order_relaxed);
  Look();
}

}  // namespace granary
