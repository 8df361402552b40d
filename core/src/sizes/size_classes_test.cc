#include "sizes/size_classes.h"

#include <gtest/gtest.h>

#include "base/fake_die.h"

namespace granary {
namespace {

TEST(SizeClasses, AscendFromEightBytesToOneMiB) {
  EXPECT_EQ(kClassSize[1], 8u);
  for (SizeClass c = 2; c < kNumClasses; ++c) EXPECT_GT(kClassSize[c], kClassSize[c - 1]);
  EXPECT_EQ(kClassSize[kNumSmall - 1], kMaxSmall);
  EXPECT_EQ(kClassSize[kNumClasses - 1], kMaxMedium);
}

TEST(SizeClasses, TheClassOfASizeIsTheSmallestThatHoldsIt) {
  SizeClass smallest = 1;
  for (size_t size = 0; size <= kMaxMedium; ++size) {
    if (size > kClassSize[smallest]) ++smallest;
    ASSERT_EQ(ClassOf(size), smallest) << size << " bytes";
  }
}

TEST(SizeClasses, LargerSizesHaveNoClass) {
  for (const size_t size : {kMaxMedium + 1, 2 * kMiB, kMaxRequest, ~size_t{0}}) {
    EXPECT_EQ(ClassOf(size), kNoClass) << size << " bytes";
  }
}

TEST(SizeClasses, ObjectsFromNineBytesUpAreAlignedToSixteen) {
  for (SizeClass c = ClassOf(9); c < kNumClasses; ++c) EXPECT_EQ(kClassSize[c] % 16, 0u);
}

TEST(SizeClasses, ObjectAtIsExactForEveryByteOfEverySlab) {
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    size_t index = 0, within = 0;
    for (size_t offset = 0; offset < kSlabShape[c].bytes; ++offset) {
      ASSERT_EQ(ObjectAt(c, offset), index) << "class " << c << ", offset " << offset;
      if (++within == kClassSize[c]) ++index, within = 0;
    }
  }
}

TEST(SizeClasses, SlabsAreWholeGranulesThatWasteLessThanATwentieth) {
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    const SlabShape& shape = kSlabShape[c];
    EXPECT_EQ(shape.bytes % kGranule, 0u);
    EXPECT_LE(shape.bytes, kTrackerBytes);
    EXPECT_GE(shape.objects, 2u);
    const size_t rest = shape.bytes - shape.objects * size_t{kClassSize[c]};
    EXPECT_LT(rest, kClassSize[c]) << "class " << c << " could hold one more";
    EXPECT_LT(rest * 20, shape.bytes) << "class " << c;
  }
}

// By brute force: the first class that is large enough and whose multiples are all aligned.
SizeClass SmallestAligned(size_t size, size_t alignment) {
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    if (kClassSize[c] >= size && kClassSize[c] % alignment == 0) return c;
  }
  return kNoClass;
}

TEST(SizeClasses, AlignedClassesAreTheSmallestThatFit) {
  for (size_t alignment = 1; alignment <= kGranule; alignment *= 2) {
    for (size_t size = 0; size <= kMaxMedium; size += size < 4096 ? 1 : 509) {
      ASSERT_EQ(AlignedClassOf(size, alignment), SmallestAligned(size, alignment))
          << size << " bytes aligned to " << alignment;
    }
  }
}

TEST(SizeClasses, AlignedClassesEndAtTheLargestClass) {
  EXPECT_EQ(AlignedClassOf(kMaxMedium, kGranule), kNumClasses - 1);
  EXPECT_EQ(AlignedClassOf(kMaxMedium + 1, 16), kNoClass);
}

}  // namespace
}  // namespace granary
