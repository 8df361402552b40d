#include "layers/filling.h"

#include <gtest/gtest.h>

#include "base/fake_die.h"
#include "base/units.h"

namespace granary {
namespace {

// Steps of 1 MiB of growth. For each byte that became live, the program allocated `per_live` in
// hundredths. Returns the answer to the last step.
bool Grow(Filling& filling, ObjectBytes& now, int steps, uint64_t per_live) {
  bool fills = false;
  for (int i = 0; i < steps; ++i) {
    now.live += kMiB;
    now.allocated += kMiB * per_live / 100;
    fills = filling.Note(now);
  }
  return fills;
}

TEST(Filling, AProgramThatFreesLittleFillsTheHeap) {
  Filling filling;
  ObjectBytes now;
  EXPECT_TRUE(Grow(filling, now, 1, 100));
  EXPECT_TRUE(Grow(filling, now, 30, 112));
  EXPECT_FALSE(Grow(filling, now, 30, 114));
}

TEST(Filling, RandomReplacementDoesNot) {
  Filling filling;
  ObjectBytes now;
  EXPECT_FALSE(Grow(filling, now, 16, 200));
}

TEST(Filling, OnlyTheLastStepsCount) {
  Filling filling;
  ObjectBytes now;
  EXPECT_FALSE(Grow(filling, now, 16, 200));
  EXPECT_FALSE(Grow(filling, now, 6, 100)) << "2 of 8 steps replaced objects";
  EXPECT_TRUE(Grow(filling, now, 2, 100));
}

TEST(Filling, AHeapThatShrankIsNotFilled) {
  Filling filling;
  ObjectBytes now;
  Grow(filling, now, 8, 100);
  now.live = kMiB / 2;
  EXPECT_FALSE(filling.Note(now));
  EXPECT_FALSE(filling.Note(now)) << "nor one that did not change";
}

}  // namespace
}  // namespace granary
