#include "pages/tracker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/fake_die.h"
#include "pages/trackers_by_fit.h"

namespace granary {
namespace {

// Free runs by brute force.
std::vector<BitRun> FreeRunsOf(const Tracker& t) {
  std::vector<BitRun> runs;
  for (size_t g = 0; g < Tracker::kGranules; ++g) {
    if (AllSet(t.used, g, 1)) continue;
    if (runs.empty() || runs.back().first + runs.back().count != g) runs.push_back({g, 0});
    ++runs.back().count;
  }
  return runs;
}

void Scatter(Tracker& t, std::mt19937& random, unsigned one_in) {
  for (size_t g = 0; g < Tracker::kGranules; ++g) {
    const bool used = AllSet(t.used, g, 1);
    if (random() % one_in != 0) continue;
    used ? t.Unuse(g, 1) : static_cast<void>(t.UseDirty(g, 1));
    if (used && random() % 2 == 0) t.MarkDirty(g, 1);
  }
}

TEST(Tracker, FindsTheSmallestRunThatFitsAndTheLongest) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    Tracker t;
    for (int i = 0; i < 3; ++i) Scatter(t, random, 2 + round % 40);
    t.Verify();
    const std::vector<BitRun> runs = FreeRunsOf(t);
    size_t longest = 0;
    for (const BitRun& run : runs) longest = run.count > longest ? run.count : longest;
    ASSERT_EQ(t.LongestFree(), longest);
    for (const BitRun& run : runs) {
      const size_t inside = run.first + random() % run.count;
      ASSERT_EQ(t.FreeAround(inside, random() % (run.first + run.count - inside) + 1), run.count);
    }
    for (size_t count = 1; count <= Tracker::kGranules; ++count) {
      BitRun best{0, 0};
      for (const BitRun& run : runs) {
        if (run.count >= count && (best.count == 0 || run.count < best.count)) best = run;
      }
      size_t other = 0;
      for (const BitRun& run : runs) {
        if (best.count == 0 || run.first != best.first) other = std::max(other, run.count);
      }
      const Tracker::Fit found = t.BestFit(count);
      ASSERT_EQ(found.run.count, best.count);
      ASSERT_EQ(found.run.first, best.first);
      ASSERT_EQ(found.other, other);
    }
  }
}

TEST(Tracker, CountsDirtyGranulesOnce) {
  Tracker t;
  t.MarkDirty(3, 5);
  t.MarkDirty(0, 10);
  EXPECT_EQ(t.dirty_count, 10);
  EXPECT_EQ(t.UseDirty(8, 4), 2u);
  EXPECT_EQ(t.dirty_count, 8);
  EXPECT_EQ(t.used_count, 4);
  t.Verify();
}

TEST(Tracker, MarksTheGranulesOfASpanThatAreDirty) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    const size_t first = random() % Tracker::kGranules;
    const size_t count = random() % (Tracker::kGranules - first) + 1;
    const uint64_t those = random();
    Tracker t;
    size_t expected = 0;
    const size_t marked = t.MarkDirty(first, count, those);
    for (size_t g = 0; g < Tracker::kGranules; ++g) {
      const bool inside = g >= first && g < first + count;
      const bool dirty = inside && (g - first >= 64 || ((those >> (g - first)) & 1) != 0);
      ASSERT_EQ(AllSet(t.dirty, g, 1), dirty);
      expected += dirty;
    }
    ASSERT_EQ(marked, expected);
    t.Verify();
  }
}

TEST(TrackerDeathTest, VerifyEndsWhenTheCountsAreWrong) {
  Tracker t;
  t.used_count = 1;
  EXPECT_DEATH(t.Verify(), "check failed");
}

TEST(TrackersByFit, GiveTheTightestThenTheFullest) {
  std::vector<Tracker> trackers(60);
  std::mt19937 random(2);
  auto lists = std::make_unique<TrackersByFit>();
  for (Tracker& t : trackers) {
    Scatter(t, random, 2 + random() % 100);
    t.Use(FindBit(t.used, 0, Tracker::kGranules, false), 1);
    t.longest = static_cast<uint16_t>(t.LongestFree());
    lists->Insert(&t);
  }
  for (size_t want = 1; want <= Tracker::kGranules; ++want) {
    size_t tightest = ~size_t{0};
    for (const Tracker& t : trackers) {
      if (t.longest >= want && t.longest < tightest) tightest = t.longest;
    }
    const Tracker* const found = lists->Find(want);
    ASSERT_EQ(found != nullptr, tightest != ~size_t{0});
    if (found == nullptr) continue;
    ASSERT_EQ(found->longest, tightest);
  }
  for (Tracker& t : trackers) {
    Scatter(t, random, 2 + random() % 10);
    lists->Relink(&t, t.LongestFree());
  }
  for (Tracker& t : trackers) {
    const Tracker* const found = lists->Find(t.longest);
    ASSERT_NE(found, nullptr);
    ASSERT_EQ(found->longest, t.longest);
  }
  size_t count = 0;
  lists->ForEach([&](Tracker*) { ++count; });
  EXPECT_EQ(count, trackers.size());
  for (Tracker& t : trackers) lists->Remove(&t);
  EXPECT_EQ(lists->Find(1), nullptr);
}

}  // namespace
}  // namespace granary
