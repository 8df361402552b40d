#include "upkeep/apply_options.h"

#include "config/options.h"
#include "layers/layers.h"
#include "upkeep/upkeep.h"

namespace granary {
namespace {

// The budget of one cache, so that all caches together hold at most cache_count times cache_bytes.
size_t CacheBudget() {
  const auto bytes = static_cast<size_t>(options.cache_bytes);
  const auto count = static_cast<size_t>(options.cache_count);
  const size_t cpus = count == 0 ? 0 : Linux::CpuCount();
  return count < cpus ? bytes / cpus * count : bytes;
}

}  // namespace

void ApplyOptions() noexcept {
  layers.front().SetBudget(CacheBudget());
  layers.metadata().SetHuge(static_cast<Metadata<Linux>::Huge>(options.metadata_thp));
  using Huge = PageHeap<Linux>::Huge;
  // A huge page holds no guard.
  layers.pages().SetHuge(options.hardened ? Huge::kNever : static_cast<Huge>(options.huge_pages));
  // A process that starts does not read the kernel's files about limits, because it may never need
  // them.
  if (layers.ready() || options.soft_limit > 0 || options.hard_limit > 0) upkeep.ApplyLimits();
}

}  // namespace granary
