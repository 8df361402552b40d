#include "unwind/rule_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/fake_die.h"

namespace granary::unwind {
namespace {

Rule RuleOf(uint64_t key) {
  const auto low = static_cast<int32_t>(key * 2654435761u);
  return {.inner = low, .outer = ~low, .kind = Rule::kStep};
}

TEST(RuleCache, FindsInsertedRules) {
  const auto cache = std::make_unique<RuleCache>();
  Rule rule;
  EXPECT_FALSE(cache->Find(17, &rule));
  cache->Insert(17, RuleOf(17));
  ASSERT_TRUE(cache->Find(17, &rule));
  EXPECT_EQ(rule.inner, RuleOf(17).inner);
  EXPECT_EQ(rule.outer, RuleOf(17).outer);
  EXPECT_FALSE(cache->Find(18, &rule));
}

TEST(RuleCache, GrowsUntilItHoldsThousands) {
  constexpr uint64_t kRules = 2000;
  const auto cache = std::make_unique<RuleCache>();
  Rule rule;
  size_t missed = 0;
  for (int round = 0; round < 8; ++round) {
    missed = 0;
    for (uint64_t key = 1; key <= kRules; ++key) {
      if (cache->Find(key, &rule)) continue;
      ++missed;
      cache->Insert(key, RuleOf(key));
    }
  }
  // With random keys, about three keys would fall into a bucket of two entries.
  EXPECT_LT(missed, kRules / 4);
}

TEST(RuleCache, NeverFindsHalfOfTwoRules) {
  const auto cache = std::make_unique<RuleCache>();
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&cache, seed] {
      uint64_t key = seed;
      for (int i = 0; i < 20000; ++i) {
        key = key * 6364136223846793005u + 1442695040888963407u;
        const uint64_t wanted = 1 + (key >> 40) % 5000;
        Rule rule;
        if (cache->Find(wanted, &rule)) {
          ASSERT_EQ(rule.inner, RuleOf(wanted).inner);
          ASSERT_EQ(rule.outer, RuleOf(wanted).outer);
        }
        cache->Insert(wanted, RuleOf(wanted));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace granary::unwind
