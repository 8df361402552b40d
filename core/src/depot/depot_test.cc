#include "depot/depot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "arch/anchor.h"
#include "base/fake_die.h"
#include "depot/fake_slabs.h"
#include "os/fake_os.h"

namespace granary {
namespace {

class DepotTest : public testing::Test {
 protected:
  using FakeDepot = Depot<FakeOs, FakeLedger>;
  static constexpr SizeClass kClass = ClassOf(64);
  static constexpr size_t kBatch = FakeDepot::BatchOf(kClass);

  DepotTest() { FakeOs::Reset(); }
  ~DepotTest() override {
    thread_area = 0;
    FakeOs::Reset();
  }

  // Puts the calling thread on this CPU.
  void RunOn(int cpu) {
    area_.cpu_id = area_.concurrency_id = cpu;
    thread_area = AddressOf(&area_) - AddressOf(&anchor.unregistered);
  }

  // Fetches `batches` batches, then returns all of them.
  void Circulate(size_t batches) {
    std::vector<std::vector<void*>> all(batches, std::vector<void*>(kBatch));
    for (auto& batch : all) ASSERT_EQ(depot_.Fetch(kClass, batch.data(), kBatch), kBatch);
    for (auto& batch : all) depot_.Return(kClass, batch.data(), kBatch);
  }

  RestartArea area_;
  FakeLedger ledger_;
  Metadata<FakeOs> metadata_;
  FakeDepot depot_{metadata_, ledger_};
};

TEST_F(DepotTest, BatchesAreAtMostAMagazineAndAtLeastOne) {
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    EXPECT_GE(FakeDepot::BatchOf(c), 1u);
    EXPECT_LE(FakeDepot::BatchOf(c), FakeDepot::kMagazine);
    EXPECT_TRUE(IsSmall(c) || FakeDepot::BatchOf(c) == 1);
  }
}

TEST_F(DepotTest, AFullMagazineIsFetchedWithoutTheSlabs) {
  void *returned[kBatch], *fetched[kBatch];
  ASSERT_EQ(depot_.Fetch(kClass, returned, kBatch), kBatch);
  depot_.Return(kClass, returned, kBatch);
  EXPECT_EQ(depot_.CachedObjects(kClass), kBatch);
  EXPECT_EQ(ledger_.returns(), 0u);
  ASSERT_EQ(depot_.Fetch(kClass, fetched, kBatch), kBatch);
  EXPECT_TRUE(std::equal(returned, returned + kBatch, fetched));
  EXPECT_EQ(ledger_.fetches(), 1u);
  EXPECT_EQ(depot_.CachedObjects(kClass), 0u);
}

TEST_F(DepotTest, ACpuFetchesFromItsOwnShelfFirst) {
  void *returned[2][kBatch], *fetched[kBatch];
  for (int cpu : {0, 1}) ASSERT_EQ(depot_.Fetch(kClass, returned[cpu], kBatch), kBatch);
  for (int cpu : {0, 1}) {
    RunOn(cpu);
    depot_.Return(kClass, returned[cpu], kBatch);
  }
  RunOn(0);
  for (int cpu : {0, 1}) {
    ASSERT_EQ(depot_.Fetch(kClass, fetched, kBatch), kBatch);
    EXPECT_TRUE(std::equal(returned[cpu], returned[cpu] + kBatch, fetched)) << cpu;
  }
  EXPECT_EQ(ledger_.fetches(), 2u);
}

TEST_F(DepotTest, EveryCpuFindsTheMagazinesOfAllShelves) {
  for (int cpu = 0; cpu < 20; ++cpu) {
    RunOn(cpu);
    Circulate(1);
    EXPECT_EQ(depot_.CachedObjects(kClass), kBatch) << "fetched from the shelf of the CPU before";
  }
  size_t visited = 0;
  depot_.ForEach(kClass, [&](void* p) { visited += ledger_.IsOut(p); });
  EXPECT_EQ(visited, kBatch);
  RunOn(500);
  for (int interval = 0; interval < 3; ++interval) depot_.EndInterval();
  EXPECT_EQ(ledger_.out(), 0u);
}

// A fork relies on this: it takes this lock first, then the lock of each open row.
TEST_F(DepotTest, NoShelfOpensWhileOpeningIsHeld) {
  void* batch[kBatch];
  ASSERT_EQ(depot_.Fetch(kClass, batch, kBatch), kBatch);
  depot_.opening().Lock();
  size_t locks = 0;
  depot_.ForEachMutex([&](Mutex<FakeOs>&) { ++locks; });
  EXPECT_EQ(locks, 0u);
  std::atomic<bool> returned{false};
  std::thread other([&] {
    depot_.Return(kClass, batch, kBatch);
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(returned);
  depot_.opening().Unlock();
  other.join();
  EXPECT_EQ(depot_.CachedObjects(kClass), kBatch);
  depot_.ForEachMutex([&](Mutex<FakeOs>&) { ++locks; });
  EXPECT_EQ(locks, kNumSmall - 1u);
}

TEST_F(DepotTest, PartialBatchesGoToTheSlabs) {
  void* batch[kBatch];
  ASSERT_EQ(depot_.Fetch(kClass, batch, kBatch - 1), kBatch - 1);
  depot_.Return(kClass, batch, kBatch - 1);
  depot_.Return(kClass, batch, 0);
  EXPECT_EQ(ledger_.out(), 0u);
  EXPECT_EQ(ledger_.returns(), 1u);
}

TEST_F(DepotTest, EveryClassMakesTheRoundTrip) {
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    void* batch[FakeDepot::kMagazine];
    const size_t n = FakeDepot::BatchOf(c);
    ASSERT_EQ(depot_.Fetch(c, batch, n), n);
    depot_.Return(c, batch, n);
    EXPECT_EQ(depot_.CachedObjects(c), n > 1 ? n : 0);
  }
  depot_.DrainAll();
  EXPECT_EQ(ledger_.out(), 0u);
}

TEST_F(DepotTest, TheLimitGrowsAfterARefusalAndAMiss) {
  Circulate(64);
  const size_t few = depot_.CachedObjects(kClass);
  EXPECT_LT(few, 16 * kBatch);
  for (int i = 0; i < 8; ++i) Circulate(64);
  EXPECT_GT(depot_.CachedObjects(kClass), 2 * few) << "a row refused a batch and then missed";
  for (int i = 0; i < 12; ++i) Circulate(1000);
  EXPECT_LE(depot_.CachedObjects(kClass) * kClassSize[kClass], 2 * kMiB) << "within bounds";
}

TEST_F(DepotTest, MagazinesIdleForAnIntervalDrain) {
  Circulate(4);
  depot_.EndInterval();
  EXPECT_EQ(depot_.CachedObjects(kClass), 4 * kBatch) << "stored in this interval";
  void* batch[kBatch];
  depot_.Fetch(kClass, batch, kBatch);
  depot_.Return(kClass, batch, kBatch);
  depot_.EndInterval();
  EXPECT_EQ(depot_.CachedObjects(kClass), kBatch) << "one was needed";
  depot_.EndInterval();
  EXPECT_EQ(depot_.CachedObjects(kClass), 0u);
  EXPECT_EQ(ledger_.out(), 0u);
}

TEST_F(DepotTest, DrainedMagazinesAreFreed) {
  Circulate(4);
  depot_.EndInterval();
  const size_t used = metadata_.used();
  depot_.EndInterval();
  EXPECT_EQ(metadata_.used(), used - 4 * 512);
  Circulate(2);
  depot_.DrainAll();
  EXPECT_EQ(metadata_.used(), used - 4 * 512);
}

TEST_F(DepotTest, VisitsEachCachedObject) {
  Circulate(3);
  size_t visited = 0;
  depot_.ForEach(kClass, [&](void* p) { visited += ledger_.IsOut(p); });
  EXPECT_EQ(visited, 3 * kBatch);
}

TEST_F(DepotTest, ReportsThatMemoryIsRefused) {
  ledger_.SetLimit(10);
  void* batch[kBatch];
  EXPECT_EQ(depot_.Fetch(kClass, batch, kBatch), 10u);
  EXPECT_EQ(depot_.Fetch(kClass, batch + 10, kBatch - 10), 0u);
  depot_.Return(kClass, batch, 10);
  EXPECT_EQ(ledger_.out(), 0u);
}

TEST_F(DepotTest, WithoutMemoryForMagazinesObjectsGoToTheSlabs) {
  FakeOs::RefuseMap(0, kNever);
  Circulate(3);
  EXPECT_EQ(depot_.CachedObjects(kClass), 0u);
  EXPECT_EQ(ledger_.out(), 0u);
  FakeOs::AllowAll();
  Circulate(3);
  EXPECT_EQ(depot_.CachedObjects(kClass), 3 * kBatch);
}

// Thread caches hold less than a batch where there are many.
TEST_F(DepotTest, SmallCachesMoveWholeBatchesFromAndToTheSlabs) {
  constexpr size_t kFew = 8, kRounds = 100;
  void* held[kRounds][kFew];
  size_t got[kRounds], total = 0;
  for (size_t i = 0; i < kRounds; ++i) total += got[i] = depot_.FetchSome(kClass, held[i], kFew);
  EXPECT_LE(ledger_.fetches(), total / kBatch + 1);
  for (size_t i = 0; i < kRounds; ++i) depot_.ReturnSome(kClass, held[i], got[i]);
  EXPECT_LE(ledger_.returns(), total / kBatch);
  EXPECT_EQ(depot_.CachedObjects(kClass), ledger_.out());
  const size_t fetches = ledger_.fetches();
  void* again[kFew];
  const size_t count = depot_.FetchSome(kClass, again, kFew);
  ASSERT_GT(count, 0u);
  EXPECT_EQ(again[count - 1], held[kRounds - 1][got[kRounds - 1] - 1]) << "freed last, used first";
  EXPECT_EQ(ledger_.fetches(), fetches);
  depot_.ReturnSome(kClass, again, count);
  depot_.DrainAll();
  EXPECT_EQ(ledger_.out(), 0u);
}

// Each fetched object is with the caller or in the depot.
TEST_F(DepotTest, ConservesObjects) {
  std::mt19937 random(6);
  const SizeClass classes[] = {1, kClass, ClassOf(2000), kNumSmall - 1, kNumSmall};
  std::vector<std::pair<SizeClass, void*>> held;
  for (int step = 0; step < 5000; ++step) {
    const SizeClass c = classes[random() % std::size(classes)];
    RunOn(static_cast<int>(random() % 12));
    const size_t n =
        random() % 4 == 0 ? 1 + random() % FakeDepot::kMagazine : FakeDepot::BatchOf(c);
    void* batch[FakeDepot::kMagazine];
    size_t count = 0;
    const bool some = random() % 2 == 0;
    if (random() % 2 == 0) {
      count = some ? depot_.FetchSome(c, batch, n) : depot_.Fetch(c, batch, n);
      for (size_t i = 0; i < count; ++i) held.emplace_back(c, batch[i]);
    } else {
      for (size_t i = held.size(); i-- > 0 && count < n;) {
        if (held[i].first != c) continue;
        batch[count++] = held[i].second;
        held.erase(held.begin() + static_cast<ptrdiff_t>(i));
      }
      some ? depot_.ReturnSome(c, batch, count) : depot_.Return(c, batch, count);
    }
    if (random() % 500 == 0) depot_.EndInterval();
    size_t cached = 0;
    for (const SizeClass k : classes) cached += depot_.CachedObjects(k);
    ASSERT_EQ(held.size() + cached, ledger_.out());
  }
}

TEST_F(DepotTest, ThreadsShareIt) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([this, t] {
      RestartArea area{.concurrency_id = t};
      thread_area = AddressOf(&area) - AddressOf(&anchor.unregistered);
      void* batch[4][kBatch];
      for (int round = 0; round < 1000; ++round) {
        size_t got[4];
        for (int i = 0; i < 4; ++i) got[i] = depot_.Fetch(kClass, batch[i], kBatch);
        for (int i = 0; i < 4; ++i) depot_.Return(kClass, batch[i], got[i]);
        const size_t few = depot_.FetchSome(kClass, batch[0], 5);
        depot_.ReturnSome(kClass, batch[0], few);
        if (t == 0 && round % 100 == 0) depot_.EndInterval();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ledger_.out(), depot_.CachedObjects(kClass));
  depot_.DrainAll();
  EXPECT_EQ(ledger_.out(), 0u);
}

}  // namespace
}  // namespace granary
