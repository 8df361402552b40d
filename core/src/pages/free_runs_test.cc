#include "pages/free_runs.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "base/fake_die.h"
#include "os/fake_os.h"

namespace granary {
namespace {

constexpr size_t kCount = 96;

// Trackers of address space that is never accessed, some of them free; a gap in the middle has
// none.
class FreeRunsTest : public testing::Test {
 protected:
  FreeRunsTest() {
    EXPECT_TRUE(map_->Cover<FakeOs>(base_, kCount * kTrackerBytes));
    for (size_t i = 0; i < kCount; ++i) {
      trackers_[i].base = base_ + i * kTrackerBytes;
      trackers_[i].state = Tracker::State::kSpans;
      if (i != kGap) map_->SetTracker(trackers_[i].base, &trackers_[i]);
    }
  }
  ~FreeRunsTest() override { FakeOs::Reset(); }

  void Add(size_t first, size_t count) {
    runs_.Add(&trackers_[first], count);
    for (size_t i = first; i < first + count; ++i) free_[i] = true;
  }
  void Taken(size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) {
      ASSERT_TRUE(free_[i]);
      free_[i] = false;
      trackers_[i].state = Tracker::State::kSpans;
    }
  }
  size_t IndexOf(const Tracker* t) const { return static_cast<size_t>(t - trackers_.data()); }

  // The smallest run in which `count` fit at an alignment of `step` trackers, then the lowest.
  size_t Expected(size_t count, size_t step) const {
    size_t best = kCount, best_length = ~size_t{0};
    for (size_t i = 0; i < kCount;) {
      size_t end = i;
      while (end < kCount && free_[end]) ++end;
      const size_t at = RoundUp(i, step);
      if (at + count <= end && end - i < best_length) best = at, best_length = end - i;
      i = end + 1;
    }
    return best;
  }

  static constexpr size_t kGap = 50;
  // The index of a tracker has the alignment of its address.
  char* const base_ = reinterpret_cast<char*>(uintptr_t{0x6000'0000'0000});
  std::unique_ptr<PageMap> map_ = std::make_unique<PageMap>();
  std::vector<Tracker> trackers_ = std::vector<Tracker>(kCount);
  FreeRuns runs_{*map_};
  std::vector<bool> free_ = std::vector<bool>(kCount);
};

TEST_F(FreeRunsTest, AgreesWithAModel) {
  std::mt19937 random(3);
  for (int step = 0; step < 4000; ++step) {
    const size_t count = 1 + random() % 6;
    if (random() % 2 == 0) {
      const size_t first = random() % (kCount - count);
      bool usable = first > kGap || first + count <= kGap;
      for (size_t i = first; i < first + count; ++i) usable &= !free_[i];
      if (usable) Add(first, count);
    } else if (random() % 3 == 0) {
      const size_t at = random() % (kCount - count);
      bool free = at != kGap;
      for (size_t i = at; i < at + count; ++i) free &= free_[i];
      if (at == kGap) continue;
      ASSERT_EQ(runs_.TakeAt(&trackers_[at], count), free);
      if (free) Taken(at, count);
    } else {
      const size_t align = size_t{1} << random() % 3;
      const size_t expected = Expected(count, align);
      Tracker* const t = runs_.Take(count, align * kTrackerBytes);
      ASSERT_EQ(t == nullptr ? kCount : IndexOf(t), expected);
      if (t != nullptr) Taken(expected, count);
    }
    runs_.Verify();
  }
}

TEST_F(FreeRunsTest, NeighboursBecomeOneRun) {
  Add(10, 2);
  Add(14, 2);
  EXPECT_EQ(runs_.Take(6, kTrackerBytes), nullptr);
  Add(12, 2);
  EXPECT_EQ(IndexOf(runs_.Take(6, kTrackerBytes)), 10u);
}

TEST_F(FreeRunsTest, GivesDirtyTrackersOutInPiecesOfARow) {
  for (const size_t i : {11, 12, 13, 15}) trackers_[i].MarkDirty(0, 1);
  Add(10, 8);
  const auto take = [this](size_t most) {
    size_t count = 0;
    const Tracker* const t = runs_.TakeDirty(most, &count);
    if (t != nullptr) Taken(IndexOf(t), count);
    return t == nullptr ? std::pair<size_t, size_t>{} : std::pair{IndexOf(t), count};
  };
  EXPECT_EQ(take(2), (std::pair<size_t, size_t>{11, 2}));
  runs_.Verify();
  EXPECT_EQ(take(8), (std::pair<size_t, size_t>{13, 1}));
  EXPECT_EQ(take(8), (std::pair<size_t, size_t>{15, 1}));
  EXPECT_EQ(take(8), (std::pair<size_t, size_t>{0, 0}));
  EXPECT_EQ(IndexOf(runs_.Take(2, kTrackerBytes)), 16u) << "the rest is still free";
  runs_.Verify();
}

TEST_F(FreeRunsTest, WalksUpThroughAllRuns) {
  Add(3, 3);
  Add(20, 1);
  size_t count = 0, seen = 0;
  for (const char* from = nullptr; const Tracker* t = runs_.TakeBeyond(from, 2, &count);) {
    seen = seen * 100 + IndexOf(t) * 10 + count;
    from = t->base + count * kTrackerBytes;
    Taken(IndexOf(t), count);
    Add(IndexOf(t), count);
  }
  EXPECT_EQ(seen, 3251u * 100 + 201) << "trackers 3 and 4, 5, and 20";
}

TEST_F(FreeRunsTest, NothingToTakeWhereNothingIs) {
  EXPECT_EQ(runs_.Take(1, kTrackerBytes), nullptr);
  EXPECT_FALSE(runs_.TakeAt(nullptr, 1));
  EXPECT_FALSE(runs_.TakeAt(&trackers_[1], 1));
}

}  // namespace
}  // namespace granary
