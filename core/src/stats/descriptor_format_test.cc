#include "stats/descriptor_format.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/fake_die.h"
#include "stats/snapshot.h"

namespace granary {
namespace {

TEST(TextPool, StoresEachTextOnce) {
  char room[64];
  TextPool pool(room, sizeof room, 1000);
  const TextAt bytes = pool.Put("bytes");
  const TextAt count = pool.Put("count");
  EXPECT_EQ(bytes, 1000u);
  EXPECT_EQ(count, 1006u);
  EXPECT_EQ(pool.Put("bytes"), bytes);
  EXPECT_NE(pool.Put("byte"), bytes);
  EXPECT_STREQ(room + (count - 1000), "count");
  EXPECT_FALSE(pool.Full());
}

TEST(TextPool, ReportsThatItIsFullAndWritesNothingBeyond) {
  char room[8] = "1234567";
  TextPool pool(room, 4, 0);
  pool.Put("abcdef");
  EXPECT_TRUE(pool.Full());
  EXPECT_EQ(std::memcmp(room, "abcd567", 8), 0);
}

TEST(Counters, HaveKnownKindsAndUnitsAndUniqueNames) {
  for (size_t i = 0; i < kCounterCount; ++i) {
    const CounterInfo& info = kCounters[i];
    EXPECT_TRUE(SameText(info.kind, "gauge") || SameText(info.kind, "counter")) << info.name;
    EXPECT_TRUE(SameText(info.unit, "bytes") || SameText(info.unit, "count") ||
                SameText(info.unit, "nanoseconds"))
        << info.name;
    for (size_t k = 0; k < i; ++k) EXPECT_FALSE(SameText(info.name, kCounters[k].name));
  }
}

TEST(Counters, AreInASnapshotInTheirOrder) {
  Snapshot s;
  s.allocations = 1;
  s.frees = 2;
  EXPECT_EQ(ValueOf(s, 0), 1u);
  EXPECT_EQ(ValueOf(s, 1), 2u);
}

}  // namespace
}  // namespace granary
