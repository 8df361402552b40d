#include "front/front.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/fake_die.h"
#include "front/every_mode.h"
#include "front/fake_depot.h"
#include "os/fake_os.h"

namespace granary {
namespace {

using TestFront = Front<FakeOs, FakeDepot>;

// With ready lists, without them, and on trial.
class FrontTest : public testing::TestWithParam<ReadyLists> {
 protected:
  static constexpr SizeClass kClass = ClassOf(128);

  FrontTest() {
    SetReadyLists(GetParam());
    Start(2);
  }
  ~FrontTest() override {
    // Later tests and the exit of this thread must not find the caches of this test.
    for (size_t i = 0; i < kMaxCaches + kUnregisteredIndices; ++i) {
      anchor.cache[i] = anchor.null_cache;
    }
    SetReadyLists(ReadyLists::kNever);
    thread_area = 0;
    FakeOs::Reset();
  }

  void Start(unsigned cpus) {
    FakeOs::Reset();
    FakeOs::SetCpus(cpus);
    thread_area = 0;
    threads.OnExit(nullptr);
    front_.Init();
  }

  void* Allocate(SizeClass c) {
    bool due = false;
    void* p = arch::Pop(PopList(c), &due);
    if (p == nullptr && front_.RefillReady(c)) p = arch::Pop(PopList(c), &due);
    if (due) front_.Rearm(c);
    if (p == nullptr) p = front_.Allocate(c, &due);
    samples_ += due;
    return p;
  }
  void Free(SizeClass c, void* p) {
    if (!arch::Push(c, p)) front_.Free(c, p);
  }
  static void TryReady(SizeClass c) {
    if (ReadyTrials::On() && HasReady(c)) UseReady(c, true);
  }
  // Allocates n objects, then frees them.
  void Burst(SizeClass c, size_t n) {
    std::vector<void*> objects(n);
    for (void*& p : objects) p = Allocate(c);
    for (void* p : objects) Free(c, p);
  }

  size_t Cached() {
    size_t sum = 0;
    for (SizeClass c = 1; c < kNumClasses; ++c) sum += front_.CachedObjects(c);
    return sum;
  }
  // Stops and checks every cache.
  void Verify() {
    ASSERT_TRUE(front_.StopAll());
    front_.ForEachCache([](TestFront::CacheOf& cache) { cache.Verify(); });
    front_.ResumeAll();
  }
  size_t Granted() {
    size_t maximum = 0;
    front_.ForEachCache(
        [&](TestFront::CacheOf& cache) { maximum = std::max(maximum, cache.granted.load()); });
    return maximum;
  }

  Metadata<FakeOs> metadata_;
  std::atomic<size_t> samples_{0};
  FakeDepot depot_;
  std::unique_ptr<TestFront> owned_ = std::make_unique<TestFront>(metadata_, depot_);
  TestFront& front_ = *owned_;
  FakeLedger& ledger_ = depot_.ledger;
};

TEST_P(FrontTest, AFreeOfOneOfTheTwoLastFreedDies) {
  for (const SizeClass c : {SizeClass{1}, kClass, SizeClass{kNumClasses - 1}}) {
    void *const first = Allocate(c), *const second = Allocate(c);
    Burst(c, 200);  // as many slots as the class gets
    Free(c, first);
    EXPECT_DEATH(Free(c, first), "misuse: free: double free");
    if (LongCapacity(c) < 3) continue;
    Free(c, second);
    EXPECT_DEATH(Free(c, second), "misuse: free: double free");
    EXPECT_DEATH(Free(c, first), "misuse: free: double free");
  }
}

TEST_P(FrontTest, AnOldPointerBelowTheFloorIsNoDoubleFree) {
  void *const lower = Allocate(kClass - 1), *const p = Allocate(kClass);
  Burst(kClass - 1, 1);
  Burst(kClass, 1);
  front_.Flush();
  bool granted = false;
  front_.ForEachCache([&](TestFront::CacheOf& cache) {
    cache.Grant(kClass);
    cache.words[kCacheLayout.short_floor[kClass] - 1] = AddressOf(p);
    granted = true;
  });
  ASSERT_TRUE(granted);
  Free(kClass, p);
  Free(kClass - 1, lower);
  front_.Flush();
  EXPECT_EQ(Cached(), 0u);
}

TEST_P(FrontTest, TheKernelRunsSequencesHere) {
  EXPECT_EQ(threads.owner(), CacheOwner::kCpu);
  Free(kClass, Allocate(kClass));
  EXPECT_GE(CurrentIndex(), 0);
}

TEST_P(FrontTest, FreedObjectsAreAllocatedWithoutTheDepot) {
  Burst(kClass, 4);
  const size_t fetches = ledger_.fetches();
  for (int i = 0; i < 1000; ++i) Burst(kClass, 4);
  EXPECT_LE(ledger_.fetches(), fetches + 4) << "except after a change of CPU";
}

// Pairs of malloc and free of one small class circulate few objects: some groups with ready lists,
// the objects of the first batch without them.
TEST_P(FrontTest, ABusyClassGetsWholeGroups) {
  for (int i = 0; i < 4000; ++i) Burst(kClass, 1);
  if (GetParam() != ReadyLists::kNever) {
    EXPECT_GE(front_.CachedObjects(kClass), kGroup);
  } else {
    EXPECT_LT(front_.CachedObjects(kClass), kGroup);
  }
  EXPECT_LT(front_.CachedObjects(kClass), 6 * kGroup);
  EXPECT_EQ(front_.Allocations(kClass), 4000u);
  Verify();
}

// A class that loses its ready list leaves objects there, and counts allocations in both lists.
TEST_P(FrontTest, AClassUsesItsReadyListWhileItGains) {
  if (GetParam() != ReadyLists::kOnTrial) GTEST_SKIP() << "no trials";
  uint64_t allocations = 0;
  const auto burst = [&](size_t n) { Burst(kClass, n), allocations += n; };
  for (int i = 0; i < 2000; ++i) burst(1);
  EXPECT_TRUE(UsesReady(kClass)) << "malloc takes back what was freed";
  for (size_t i = 0; i < 40; ++i) burst(20 + i % 5);
  EXPECT_FALSE(UsesReady(kClass)) << "group moves find more objects or fewer";
  for (uint64_t i = 0; i <= 4 * kInitialCount && !UsesReady(kClass); ++i) burst(1);
  EXPECT_TRUE(UsesReady(kClass)) << "a count ran out";
  EXPECT_EQ(front_.Allocations(kClass), allocations);
  Verify();
  front_.Flush();
  EXPECT_EQ(ledger_.out(), 0u);
}

TEST_P(FrontTest, AClassOfRareAllocationsLosesItsReadyList) {
  if (GetParam() != ReadyLists::kOnTrial) GTEST_SKIP() << "no trials";
  for (uint64_t i = 0; i <= 4 * kInitialCount; ++i) {
    FakeOs::SetNow(1 + i / 1024);
    Burst(kClass, 1);
    ASSERT_FALSE(i > 20000 && UsesReady(kClass));
  }
}

TEST_P(FrontTest, ALostReadyListIsDrainedWhileItsClassIsBusy) {
  if (GetParam() != ReadyLists::kOnTrial) GTEST_SKIP() << "no trials";
  TryReady(kClass);
  for (int i = 0; i < 2000; ++i) Burst(kClass, 1);
  UseReady(kClass, false);
  size_t left = 0;
  front_.ForEachCache([&](TestFront::CacheOf& cache) { left += cache.ReadyObjects(kClass); });
  ASSERT_GT(left, 0u);
  const SizeClass idle = ClassOf(1000);  // enough idle bytes for a reclaim
  Burst(idle, 60);
  for (int i = 0; i < 2; ++i) {
    front_.ReclaimIdle();
    Burst(kClass, 1);
  }
  front_.ForEachCache([](TestFront::CacheOf& cache) { EXPECT_EQ(cache.ReadyObjects(kClass), 0u); });
  Verify();
}

TEST_P(FrontTest, ConservesObjectsAndCountsAllocations) {
  std::mt19937 random(10);
  const SizeClass classes[] = {1, kClass, ClassOf(4000), kNumSmall - 1, kNumSmall, kNumClasses - 1};
  std::vector<std::pair<SizeClass, void*>> held;
  std::vector<uint64_t> allocations(kNumClasses);
  for (int step = 0; step < 20000; ++step) {
    // Phases that mostly allocate or mostly free, so that caches run empty and full.
    const bool rising = (step / 700) % 2 == 0;
    if (random() % 4 < (rising ? 3u : 1u)) {
      const SizeClass c = classes[random() % std::size(classes)];
      if (random() % 64 == 0) TryReady(c);
      held.emplace_back(c, Allocate(c));
      ASSERT_TRUE(ledger_.IsOut(held.back().second));
      ++allocations[c];
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      Free(held.back().first, held.back().second);
      held.pop_back();
    }
    if (step % 500 != 0) continue;
    Verify();
    ASSERT_EQ(held.size() + Cached(), ledger_.out());
    for (const SizeClass c : classes) ASSERT_EQ(front_.Allocations(c), allocations[c]);
    if (random() % 4 == 0) front_.ReclaimIdle();
    if (random() % 8 == 0) front_.Flush();
  }
  front_.Flush();
  EXPECT_EQ(Cached(), 0u);
  EXPECT_EQ(ledger_.out(), held.size());
}

TEST_P(FrontTest, CapacityFollowsUse) {
  Burst(kClass, 1);
  const size_t small = Granted();
  for (int i = 0; i < 50; ++i) Burst(kClass, 500);
  EXPECT_GT(Granted(), small);
  EXPECT_LE(Granted(), (LongCapacity(kClass) + 8) * kClassSize[kClass]);
  EXPECT_GT(front_.CachedObjects(kClass), 100u);
  Verify();
}

TEST_P(FrontTest, EveryClassCanGrowToItsMaximum) {
  front_.SetBudget(kGiB);
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    for (int i = 0; i < 12; ++i) Burst(c, 2 * LongCapacity(c));
    EXPECT_LE(front_.CachedObjects(c), 2 * LongCapacity(c));
  }
  Verify();
  front_.Flush();
  Verify();
  EXPECT_EQ(ledger_.out(), 0u);
}

TEST_P(FrontTest, TheBudgetBoundsACache) {
  front_.SetBudget(64 * kKiB);
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    for (int i = 0; i < 6; ++i) Burst(c, 300);
    ASSERT_LE(Granted(), 64 * kKiB);
  }
  Verify();
}

TEST_P(FrontTest, NoBudgetMeansNoSlots) {
  front_.SetBudget(0);
  for (int i = 0; i < 6; ++i) Burst(kClass, 300);
  EXPECT_EQ(Granted(), 0u);
  EXPECT_EQ(ledger_.out(), 0u);
}

TEST_P(FrontTest, IdleObjectsAreReclaimedAtTheSecondCall) {
  for (int i = 0; i < 20; ++i) Burst(kClass, 500);
  ASSERT_GE(front_.CachedObjects(kClass) * kClassSize[kClass], 16 * kKiB);
  front_.ReclaimIdle();
  EXPECT_GT(front_.CachedObjects(kClass), 0u) << "it was in use until now";
  front_.ReclaimIdle();
  EXPECT_EQ(front_.CachedObjects(kClass), 0u);
  EXPECT_EQ(ledger_.out(), 0u);
  Burst(kClass, 500);
  Verify();
}

TEST_P(FrontTest, ReclaimKeepsObjectsOfBusyClasses) {
  const SizeClass busy = ClassOf(1000);
  for (int i = 0; i < 20; ++i) {
    Burst(kClass, 500);
    Burst(busy, 20);
  }
  front_.ReclaimIdle();
  Burst(busy, 1);
  front_.ReclaimIdle();
  EXPECT_EQ(front_.CachedObjects(kClass), 0u);
  EXPECT_GT(front_.CachedObjects(busy), 0u);
}

TEST_P(FrontTest, NoCacheIsDrainedThatCannotBeStopped) {
  for (int i = 0; i < 20; ++i) Burst(kClass, 500);
  const size_t cached = front_.CachedObjects(kClass);
  FakeOs::SetCanAbort(false);
  front_.ReclaimIdle();
  front_.ReclaimIdle();
  EXPECT_EQ(front_.CachedObjects(kClass), cached);
  EXPECT_FALSE(front_.StopAll());
  front_.ResumeAll();
  front_.Flush();
  EXPECT_EQ(ledger_.out(), 0u) << "the caller's own cache, one class at a time";
}

TEST_P(FrontTest, AStoppedCacheServesNoThread) {
  Burst(kClass, 8);
  const size_t cached = front_.CachedObjects(kClass);
  ASSERT_TRUE(front_.StopAll());
  bool due = false;
  EXPECT_EQ(arch::Pop(PopList(kClass), &due), nullptr);
  void* const p = front_.Allocate(kClass, &due);
  EXPECT_NE(p, nullptr) << "from the depot";
  EXPECT_FALSE(arch::Push(kClass, p));
  front_.Free(kClass, p);
  EXPECT_EQ(front_.CachedObjects(kClass), cached);
  front_.ResumeAll();
  const size_t fetches = ledger_.fetches();
  EXPECT_NE(Allocate(kClass), nullptr);
  EXPECT_EQ(ledger_.fetches(), fetches);
}

// Each of n allocations is a sample with probability p, independently: over many seeds the sum of
// the squared deviations, each divided by its variance, is about the number of seeds.
TEST_P(FrontTest, SamplesHaveTheExpectedFrequency) {
  constexpr uint64_t kRate = 20000;
  constexpr int kSeeds = 200, kRounds = 60;
  const struct {
    SizeClass c;
    size_t burst;  // above the cache's capacity no header counts some allocations
  } patterns[] = {{ClassOf(16), 5}, {kClass, 40}, {kClass, 300}, {ClassOf(3000), 20}};
  for (const auto& pattern : patterns) {
    const double n = static_cast<double>(kRounds * pattern.burst);
    const double p = OneMinusExp(static_cast<double>(kClassSize[pattern.c]) / kRate);
    double sum = 0;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      ASSERT_TRUE(front_.SetSampling(kRate, static_cast<uint64_t>(seed)));
      samples_ = 0;
      const uint64_t before = front_.Allocations(pattern.c);
      for (int i = 0; i < kRounds; ++i) Burst(pattern.c, pattern.burst);
      ASSERT_EQ(front_.Allocations(pattern.c) - before, static_cast<uint64_t>(n));
      const double off = static_cast<double>(samples_ + front_.ResetLate(pattern.c)) - n * p;
      sum += off * off / (n * p * (1 - p));
    }
    // Chi-squared with 200 degrees of freedom: 99.99 % of values are between 132 and 285.
    EXPECT_GT(sum, 132) << "class " << pattern.c << " by " << pattern.burst;
    EXPECT_LT(sum, 285) << "class " << pattern.c << " by " << pattern.burst;
  }
  ASSERT_TRUE(front_.SetSampling(0, 0));
  samples_ = 0;
  Burst(kClass, 1000);
  EXPECT_EQ(samples_, 0u);
}

// By chance alone, one allocation in 3,000 of the smallest class would be no sample.
TEST_P(FrontTest, AtARateOfOneAllAreSamples) {
  const SizeClass smallest = ClassOf(1);
  ASSERT_TRUE(front_.SetSampling(1, 7));
  samples_ = 0;
  for (int i = 0; i < 1000; ++i) Burst(smallest, 30);
  EXPECT_EQ(samples_ + front_.ResetLate(smallest), 30000u);
  ASSERT_TRUE(front_.SetSampling(0, 0));
}

// Without restartable sequences a thread sets the counts of its own cache.
TEST_P(FrontTest, AThreadsOwnCacheIsArmedByTheThread) {
  threads.OnExit([](size_t) {});
  FakeOs::Reset();
  FakeOs::SetCpus(0);
  front_.Init();
  Burst(kClass, 20);
  ASSERT_TRUE(front_.SetSampling(1, 3));
  samples_ = 0;
  Burst(kClass, 50);
  EXPECT_EQ(samples_, 50u) << "each allocation";
  ASSERT_TRUE(front_.SetSampling(0, 0));
  Burst(kClass, 50);
  EXPECT_EQ(samples_, 50u);
}

TEST_P(FrontTest, AllocateReturnsNullWhenMemoryIsRefused) {
  ledger_.SetLimit(3);
  std::vector<void*> objects;
  while (void* p = Allocate(kClass)) objects.push_back(p);
  EXPECT_EQ(objects.size(), 3u);
  for (void* p : objects) Free(kClass, p);
  EXPECT_NE(Allocate(kClass), nullptr);
}

TEST_P(FrontTest, WithoutMemoryForACacheTheDepotServes) {
  FakeOs::RefuseMap(0, kNever);
  Burst(kClass, 100);
  EXPECT_EQ(Cached(), 0u);
  EXPECT_EQ(ledger_.out(), 0u);
  EXPECT_EQ(front_.Allocations(kClass), 100u);
  FakeOs::AllowAll();
  Burst(kClass, 100);
  EXPECT_GT(Cached(), 0u);
}

// A thread made by a bare clone() has no index and no restartable sequences.
TEST_P(FrontTest, ThreadsWithoutAnIndexUseSharedCaches) {
  static RestartArea lone{.cpu_id = -1, .concurrency_id = -1};
  thread_area = AddressOf(&lone) - AddressOf(&anchor.unregistered);
  const SizeClass classes[] = {1, kClass, kNumSmall - 1, kNumClasses - 1};
  for (const SizeClass c : classes) {
    for (int i = 0; i < 5; ++i) Burst(c, 30);
    EXPECT_EQ(front_.Allocations(c), 150u);
    EXPECT_EQ(front_.CachedObjects(c), ledger_.out());
    front_.Flush();
    EXPECT_EQ(ledger_.out(), 0u);
  }
}

TEST_P(FrontTest, AThreadCacheIsDrainedWhenItsThreadExits) {
  Start(0);
  ASSERT_EQ(threads.owner(), CacheOwner::kThread);
  static TestFront* front;
  front = &front_;
  threads.OnExit([](size_t index) { front->Forget(index, true); });
  std::thread([this] {
    for (int i = 0; i < 5; ++i) Burst(kClass, 100);
    EXPECT_GE(CurrentIndex(), 0);
    EXPECT_GT(Cached(), 0u);
  }).join();
  EXPECT_EQ(Cached(), 0u);
  EXPECT_EQ(ledger_.out(), 0u);
  threads.OnExit(nullptr);
}

// Threads allocate on all CPUs while another thread stops, verifies, reclaims and flushes the
// caches.
TEST_P(FrontTest, ThreadsAndReclaimLoseNothing) {
  std::vector<std::thread> workers;
  for (int t = 0; t < 3; ++t) {
    workers.emplace_back([this, t] {
      const SizeClass c = t == 0 ? ClassOf(2000) : kClass;
      for (int i = 0; i < 300; ++i) {
        if (i % 8 == 0) TryReady(c);
        Burst(c, 20 + (i % 7) * 40);
      }
    });
  }
  for (int i = 0; i < 60; ++i) {
    if (i % 3 == 0) Verify();
    if (i % 3 == 1) front_.ReclaimIdle();
    if (i % 3 == 2) front_.Flush();
    std::this_thread::yield();
  }
  for (std::thread& worker : workers) worker.join();
  Verify();
  EXPECT_EQ(Cached(), ledger_.out());
  front_.Flush();
  EXPECT_EQ(ledger_.out(), 0u);
}

INSTANTIATE_TEST_SUITE_P(ReadyLists, FrontTest, EveryMode(), testing::PrintToStringParamName());

}  // namespace
}  // namespace granary
