// The front and all layers below it under chosen schedules: two threads allocate and free each
// other's objects, and a third thread reclaims, drains and releases. At each turn a thread may move
// to another CPU.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "base/fake_die.h"
#include "central/central.h"
#include "depot/depot.h"
#include "front/every_mode.h"
#include "front/front.h"
#include "os/fake_schedule.h"
#include "pages/pages.h"

namespace granary {
namespace {

using SteppedFront = Front<SteppedOs, Depot<SteppedOs>>;

constexpr SizeClass kClasses[] = {ClassOf(4096), ClassOf(20000), kNumSmall};
constexpr size_t kThreads = 3;

RestartArea areas[kThreads];

void RunOn(size_t thread, size_t cpu) {
  areas[thread].cpu_id = areas[thread].concurrency_id = static_cast<int32_t>(cpu);
}

class Stack {
 public:
  Stack() {
    FakeOs::Reset();
    pages.Init();
    central.Init();
    front.Init();
    front.SetBudget(256 * kKiB);
  }
  ~Stack() {
    for (CacheWords*& cache : anchor.cache) cache = anchor.null_cache;
    FakeOs::Reset();
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

 private:
  std::unique_ptr<PageMap> map_ = std::make_unique<PageMap>();

 public:
  Metadata<SteppedOs> metadata;
  PageHeap<SteppedOs> pages{*map_, metadata};
  Central<SteppedOs> central{*map_, metadata, pages};
  Depot<SteppedOs> depot{metadata, central};
  SteppedFront front{metadata, depot};
};

// The work of the threads and the checks after it. Only one thread runs at a time.
class Scenario {
 public:
  // With `sampled`, about every third object is a sample between the two rounds of upkeep.
  explicit Scenario(bool sampled) : sampled_(sampled) {}
  size_t samples() const { return samples_; }

  void Run(FakeSchedule::Choose choose) {
    for (size_t i = 0; i < kThreads; ++i) RunOn(i, i % 2);
    FakeSchedule::Run({[this] { Work(0); }, [this] { Work(1); }, [this] { Upkeep(); }},
                      std::move(choose));
    thread_area = 0;
    Check();
    FreeAll();
  }

 private:
  struct Object {
    SizeClass c;
    uint64_t mark;
  };

  static void Enter(size_t thread) {
    thread_area = AddressOf(&areas[thread]) - AddressOf(&anchor.unregistered);
  }

  void Work(size_t thread) {
    Enter(thread);
    for (int round = 0; round < 3; ++round) {
      for (const SizeClass c : kClasses) {
        for (int i = 0; i < 5; ++i) Allocate(c);
        for (int i = 0; i < 4; ++i) FreeOldest(c);
      }
    }
  }

  void Upkeep() {
    Enter(2);
    for (int round = 0; round < 2; ++round) {
      if (sampled_) {
        ASSERT_TRUE(stack_->front.SetSampling(round == 0 ? 30000 : 0, 5));
      }
      stack_->front.ReclaimIdle();
      stack_->depot.EndInterval();
      for (const SizeClass c : kClasses) {
        if (IsSmall(c)) stack_->central.PurgePages(c, 2);
      }
      stack_->pages.EndInterval();
      stack_->pages.PurgeDirty(kMiB);
    }
  }

  void Allocate(SizeClass c) {
    bool due = false;
    if (marks_ % 3 == 0 && ReadyTrials::On() && HasReady(c)) UseReady(c, true);
    void* p = arch::Pop(PopList(c), &due);
    if (p == nullptr && stack_->front.RefillReady(c)) p = arch::Pop(PopList(c), &due);
    if (due) stack_->front.Rearm(c);
    if (p == nullptr) p = stack_->front.Allocate(c, &due);
    ASSERT_NE(p, nullptr);
    ++allocations_[c];
    samples_ += due;
    const auto [it, fresh] = live_.insert({static_cast<char*>(p), Object{c, ++marks_}});
    GRANARY_CHECK(fresh);  // no two owners
    std::memcpy(it->first, &marks_, sizeof marks_);
    std::memcpy(it->first + kClassSize[c] - sizeof marks_, &marks_, sizeof marks_);
  }

  // Frees the oldest object of class c, whichever thread allocated it.
  void FreeOldest(SizeClass c) {
    auto oldest = live_.end();
    for (auto it = live_.begin(); it != live_.end(); ++it) {
      if (it->second.c != c) continue;
      if (oldest == live_.end() || it->second.mark < oldest->second.mark) oldest = it;
    }
    if (oldest != live_.end()) Free(oldest);
  }

  void Free(std::map<char*, Object>::iterator it) {
    const auto [p, object] = *it;
    GRANARY_CHECK(std::memcmp(p, &object.mark, sizeof object.mark) == 0);
    const char* const end = p + kClassSize[object.c] - sizeof object.mark;
    GRANARY_CHECK(std::memcmp(end, &object.mark, sizeof object.mark) == 0);
    live_.erase(it);
    if (!arch::Push(object.c, p)) stack_->front.Free(object.c, p);
  }

  // Each object that was fetched from the slabs is live, in a cache or in the depot.
  void Check() {
    for (const SizeClass c : kClasses) {
      size_t live = 0;
      for (const auto& object : live_) live += object.second.c == c;
      const size_t above = live + stack_->front.CachedObjects(c) + stack_->depot.CachedObjects(c);
      ASSERT_EQ(stack_->central.Stats(c).used_objects, above) << "class " << c;
      ASSERT_EQ(stack_->front.Allocations(c), allocations_[c]) << "class " << c;
    }
    ASSERT_TRUE(stack_->front.StopAll());
    stack_->front.ForEachCache([](Cache<SteppedOs>& cache) { cache.Verify(); });
    stack_->front.ResumeAll();
    stack_->central.Verify();
    stack_->pages.Verify();
  }

  void FreeAll() {
    Enter(0);
    while (!live_.empty()) Free(live_.begin());
    stack_->front.Flush();
    stack_->depot.DrainAll();
    thread_area = 0;
    for (const SizeClass c : kClasses) {
      ASSERT_EQ(stack_->central.Stats(c).used_objects, 0u) << "class " << c;
    }
    stack_->pages.Verify();
  }

  std::unique_ptr<Stack> stack_ = std::make_unique<Stack>();
  std::map<char*, Object> live_;
  uint64_t marks_ = 0;
  uint64_t allocations_[kNumClasses] = {};
  bool sampled_;
  size_t samples_ = 0;
};

// With ready lists, without them, and on trial.
class ScheduleTest : public testing::TestWithParam<ReadyLists> {
 protected:
  ScheduleTest() { SetReadyLists(GetParam()); }
  ~ScheduleTest() override {
    SetReadyLists(ReadyLists::kNever);
    thread_area = 0;
  }
};

TEST_P(ScheduleTest, InvariantsHoldUnderRandomTurns) {
  size_t samples = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Scenario scenario(seed % 2 == 1);
    scenario.Run([&](size_t, size_t current, bool) {
      if (random() % 8 == 0) RunOn(random() % kThreads, random() % 2);
      return random() % (1 + seed % 5) == 0 ? random() % kThreads : current;
    });
    ASSERT_FALSE(HasFailure());
    samples += scenario.samples();
    if (seed % 2 == 0) {
      ASSERT_EQ(scenario.samples(), 0u);
    }
  }
  EXPECT_GT(samples, 20u);
}

// Each thread runs until it ends, except at one turn: there another thread runs to its end first.
// The test does this for one turn after the other.
TEST_P(ScheduleTest, InvariantsHoldWhereverOneThreadIsInterrupted) {
  Scenario(true).Run([](size_t, size_t current, bool blocked) { return current + blocked; });
  const size_t turns = FakeSchedule::turns;
  ASSERT_GT(turns, 100u);
  for (size_t other = 1; other < kThreads; ++other) {
    for (size_t at = other; at < turns; at += 2) {
      SCOPED_TRACE(testing::Message()
                   << "turn " << at << ", switch to the thread " << other << " after");
      Scenario(true).Run([&](size_t turn, size_t current, bool blocked) {
        if (turn == at) RunOn(current, 1);
        return turn == at ? current + other : current + blocked;
      });
      ASSERT_FALSE(HasFailure());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ReadyLists, ScheduleTest, EveryMode(), testing::PrintToStringParamName());

}  // namespace
}  // namespace granary
