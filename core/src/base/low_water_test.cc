#include "base/low_water.h"

#include <gtest/gtest.h>

#include "base/fake_die.h"

namespace granary {
namespace {

TEST(LowWater, NothingIsIdleInTheFirstInterval) {
  LowWater low;
  EXPECT_EQ(low.EndInterval(10), 0u);
}

TEST(LowWater, UntouchedStockIsIdle) {
  LowWater low;
  low.EndInterval(10);
  EXPECT_EQ(low.EndInterval(10), 10u);
}

TEST(LowWater, AnElementThatWasNeededOnceIsNotIdle) {
  LowWater low;
  low.EndInterval(10);
  low.Note(4);
  low.Note(9);
  EXPECT_EQ(low.EndInterval(9), 4u);
  EXPECT_EQ(low.EndInterval(9), 9u);
}

TEST(LowWater, NeverMoreThanTheLevel) {
  LowWater low;
  low.EndInterval(10);
  EXPECT_EQ(low.EndInterval(3), 3u);
  EXPECT_EQ(low.EndInterval(0), 0u);
}

}  // namespace
}  // namespace granary
