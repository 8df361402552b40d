#include "layers/peaks.h"

#include "layers/class_figures.h"
#include "layers/layers.h"

namespace granary {

void Peaks::Measure() noexcept {
  const size_t used = layers.pages().used_bytes();
  const size_t part = used / kParts;
  const size_t least = kStep + layers.front().Caches() * kStepOfCache;
  beyond_.store(used + (part > least ? part : least) - kStep, std::memory_order_relaxed);
  const uint64_t now = LiveBytes();
  uint64_t most = live_.load(std::memory_order_relaxed);
  while (now > most && !live_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

void Peaks::Reset() noexcept {
  layers.pages().ResetPeaks();
  live_.store(0, std::memory_order_relaxed);
  Measure();
}

}  // namespace granary
