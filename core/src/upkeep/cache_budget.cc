#include "upkeep/cache_budget.h"

#include "config/options.h"
#include "layers/layers.h"

namespace granary {

// With option cache_count, all caches together have the budgets of so many.
void FitCacheBudget() noexcept {
  auto& front = layers.front();
  const size_t budget = CacheBudget(layers.pages().used_bytes(), front.Caches(),
                                    static_cast<size_t>(options.cache_bytes));
  const auto count = static_cast<size_t>(options.cache_count);
  const size_t cpus = count == 0 ? 0 : Linux::CpuCount();
  front.SetBudget(count < cpus ? budget / cpus * count : budget);
}

}  // namespace granary
