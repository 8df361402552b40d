#include "upkeep/thresholds.h"

namespace granary {

bool Thresholds::Add(size_t bytes, granary_threshold_callback callback, void* context) noexcept {
  Locked hold(mutex_);
  const size_t count = count_.load(std::memory_order_relaxed);
  if (count == kMost) return false;
  rows_[count] = {bytes, callback, context, false};
  count_.store(count + 1, std::memory_order_relaxed);
  return true;
}

bool Thresholds::Remove(granary_threshold_callback callback, void* context) noexcept {
  Locked hold(mutex_);
  const size_t count = count_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < count; ++i) {
    if (rows_[i].callback != callback || rows_[i].context != context) continue;
    rows_[i] = rows_[count - 1];
    count_.store(count - 1, std::memory_order_relaxed);
    return true;
  }
  return false;
}

// Finds the next row whose state does not match `held`, and updates its state.
bool Thresholds::TakeCrossed(size_t held, Row* crossed) noexcept {
  Locked hold(mutex_);
  for (size_t i = 0; i < count_.load(std::memory_order_relaxed); ++i) {
    const bool reached = held >= rows_[i].bytes;
    if (rows_[i].reached == reached) continue;
    rows_[i].reached = reached;
    *crossed = rows_[i];
    return true;
  }
  return false;
}

void Thresholds::Check(size_t held) noexcept {
  if (calling_.exchange(true, std::memory_order_acquire)) return;
  Row row;
  while (TakeCrossed(held, &row)) row.callback(row.context, held, row.reached ? 1 : 0);
  calling_.store(false, std::memory_order_release);
}

}  // namespace granary
