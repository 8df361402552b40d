#include "upkeep/apply_options.h"

#include "config/options.h"
#include "layers/layers.h"
#include "upkeep/cache_budget.h"
#include "upkeep/upkeep.h"

namespace granary {

void ApplyOptions() noexcept {
  FitCacheBudget();
  layers.metadata().SetHuge(static_cast<Metadata<Linux>::Huge>(options.metadata_thp));
  using Huge = PageHeap<Linux>::Huge;
  // A huge page holds no guard.
  layers.pages().SetHuge(options.hardened ? Huge::kNever : static_cast<Huge>(options.huge_pages));
  // A process that starts does not read the kernel's files about limits, because it may never need
  // them.
  if (layers.ready() || options.soft_limit > 0 || options.hard_limit > 0) upkeep.ApplyLimits();
}

}  // namespace granary
