#include "front/cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "base/fake_die.h"
#include "front/growth.h"
#include "os/fake_os.h"

namespace granary {
namespace {

void* Pointer(uintptr_t n) { return reinterpret_cast<void*>(n * 16); }

TEST(CacheLayout, RegionsDoNotOverlap) {
  std::vector<int> owner(kCacheLayout.words, 0);
  const auto claim = [&](size_t from, size_t count) {
    for (size_t at = from; at < from + count; ++at) {
      ASSERT_LT(at, kCacheLayout.words);
      ASSERT_EQ(owner[at]++, 0) << at;
    }
  };
  claim(0, kHeaders);
  for (SizeClass c = 1; c <= kLastReady; ++c) claim(kCacheLayout.ready_floor[c], kReadySlots + 1);
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    claim(kCacheLayout.short_floor[c], ShortCapacity(c) + 1);
    claim(kCacheLayout.long_floor[c], LongCapacity(c) + 1);
    EXPECT_EQ(owner[kCacheLayout.short_floor[c]], 1);
    EXPECT_GT(LongCapacity(c), ShortCapacity(c));
  }
}

TEST(CacheLayout, CapacityGrowsToTheEndOfTheLongRegion) {
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    size_t slots = 0;
    for (int steps = 0; slots < LongCapacity(c); ++steps) {
      ASSERT_LT(steps, 12);
      const size_t next = NextCapacity(c, slots);
      ASSERT_GT(next, slots);
      slots = next;
    }
    EXPECT_EQ(NextCapacity(c, slots), LongCapacity(c));
  }
}

class CacheTest : public testing::Test {
 protected:
  CacheTest() { cache_->Init(); }

  std::unique_ptr<Cache<FakeOs>> cache_ = std::make_unique<Cache<FakeOs>>();
  CacheWords* words_ = cache_->words;
};

TEST_F(CacheTest, AFreshCacheIsEmptyAndFull) {
  cache_->Verify();
  void* p = Pointer(1);
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    EXPECT_EQ(exclusive::Pop(words_, c), nullptr);
    EXPECT_EQ(exclusive::PushMany(words_, c, &p, 1), 0u);
  }
}

TEST_F(CacheTest, EachGrantedSlotHoldsOneObject) {
  size_t bytes = 0;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    cache_->Grant(c);
    cache_->Grant(c);
    bytes += ShortCapacity(c) * kClassSize[c];
    void* objects[10];
    for (uintptr_t i = 0; i < 10; ++i) objects[i] = Pointer(i + 1);
    ASSERT_EQ(exclusive::PushMany(words_, c, objects, 10), ShortCapacity(c));
    ASSERT_EQ(exclusive::Count(words_, c), ShortCapacity(c));
  }
  EXPECT_EQ(cache_->granted.load(), bytes);
  cache_->Verify();
}

TEST_F(CacheTest, AgreesWithAStack) {
  std::mt19937 random(9);
  const SizeClass classes[] = {1, 2, ClassOf(1000), kNumClasses - 1};
  std::vector<std::vector<void*>> stacks(std::size(classes));
  std::vector<uint64_t> pops(std::size(classes));
  for (const SizeClass c : classes) cache_->Grant(c);
  for (uintptr_t step = 1; step < 3000; ++step) {
    const size_t row = random() % std::size(classes);
    const SizeClass c = classes[row];
    std::vector<void*>& stack = stacks[row];
    void* batch[4] = {Pointer(step), Pointer(step + 10000), Pointer(step + 20000), nullptr};
    const size_t n = random() % 4;
    if (random() % 2 == 0) {
      const size_t pushed = exclusive::PushMany(words_, c, batch, n);
      ASSERT_EQ(pushed, std::min(n, ShortCapacity(c) - stack.size()));
      stack.insert(stack.end(), batch, batch + pushed);
    } else if (n == 1) {
      void* const p = exclusive::Pop(words_, c);
      ASSERT_EQ(p, stack.empty() ? nullptr : stack.back());
      if (p != nullptr) stack.pop_back(), ++pops[row];
    } else {
      const size_t popped = exclusive::PopMany(words_, c, batch, n);
      ASSERT_EQ(popped, std::min(n, stack.size()));
      for (size_t i = 0; i < popped; ++i, stack.pop_back()) ASSERT_EQ(batch[i], stack.back());
    }
    ASSERT_EQ(exclusive::Count(words_, c), stack.size());
    ASSERT_EQ(cache_->Allocations(c), pops[row]) << "only Pop counts an allocation";
    cache_->Verify();
  }
}

TEST_F(CacheTest, ARevokedClassCanBeGrantedAgain) {
  for (int round = 0; round < 3; ++round) {
    for (SizeClass c = 1; c < kNumClasses; ++c) cache_->Grant(c);
    cache_->Verify();
    for (SizeClass c = 1; c < kNumClasses; ++c) cache_->Revoke(c);
    cache_->Verify();
    EXPECT_EQ(cache_->granted.load(), 0u);
  }
}

using CacheDeathTest = CacheTest;

TEST_F(CacheDeathTest, VerifyDetectsABrokenWall) {
  cache_->Grant(5);
  words_[kCacheLayout.short_floor[5]] = 16;
  EXPECT_DEATH(cache_->Verify(), "check failed");
}

}  // namespace
}  // namespace granary
