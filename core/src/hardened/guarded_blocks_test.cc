#include "hardened/guarded_blocks.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/fake_die.h"
#include "pages/fake_pages.h"

namespace granary::hardened {
namespace {

// With guards of the kernel, or with protected pages.
class Guarded : public testing::TestWithParam<bool> {
 protected:
  Guarded() {
    FakeOs::SetCanGuard(GetParam());
    pages.heap.SetGuards(true);
    blocks.Bind(pages.heap);
  }
  char* Make(size_t size, size_t alignment = 1) {
    char* const p = static_cast<char*>(blocks.Allocate(size, alignment));
    EXPECT_NE(p, nullptr);
    return p;
  }
  const size_t page = FakeOs::PageSize();
  FakePages pages;
  GuardedBlocks<FakeOs> blocks;
};

TEST_P(Guarded, AnObjectEndsAtAGuard) {
  for (const size_t size : {size_t{65536}, size_t{100000}, size_t{1}, 3 * kMiB + 5}) {
    char* const p = Make(size);
    EXPECT_EQ(blocks.SizeOf(p, "test"), size);
    EXPECT_EQ(AddressOf(p) % 16, 0u);
    EXPECT_TRUE(IsZero(p, RoundDown(size, 8)));
    std::memset(p, 1, size);
    EXPECT_DEATH(*static_cast<volatile char*>(p + RoundUp(size, 16)) = 1, "");
    EXPECT_DEATH(*static_cast<volatile char*>(p - page) = 1, "");
    blocks.Free(p);
    if (!GetParam() && size > GuardedBlocks<FakeOs>::kMostWaiting) continue;
    EXPECT_DEATH((void)*static_cast<volatile char*>(p), "");
    pages.heap.Verify();
  }
}

TEST_P(Guarded, AlignmentsHold) {
  for (size_t alignment = 1; alignment <= 8 * kMiB; alignment *= 2) {
    char* const p = Make(70000, alignment);
    EXPECT_EQ(AddressOf(p) % alignment, 0u);
    EXPECT_EQ(blocks.SizeOf(p, "test"), 70000u);
    std::memset(p, 1, 70000);
    blocks.Free(p);
  }
}

TEST_P(Guarded, AFreedBlockComesBackZero) {
  for (size_t i = 0; i < 200; ++i) {
    char* const p = Make(100000 + i);
    EXPECT_TRUE(IsZero(p, 100000));
    std::memset(p, 0xff, 100000 + i);
    blocks.Free(p);
  }
  EXPECT_LE(pages.heap.used_bytes(), 33 * (128 * kKiB));
  pages.heap.Verify();
}

TEST_P(Guarded, AGuardEmptiesAFreedBlockAndNothingPurgesItAgain) {
  const size_t before = FakeOs::counts().purge;
  for (size_t i = 0; i < 200; ++i) {
    char* const p = Make(100000);
    std::memset(p, 0xff, 100000);
    blocks.Free(p);
  }
  if (GetParam()) {
    EXPECT_EQ(FakeOs::counts().purge, before);
  }
  EXPECT_EQ(pages.heap.Stats().dirty, 0u);
  pages.heap.Verify();
}

TEST_P(Guarded, WritesBesideAnObjectEndTheProgram) {
  char* const p = Make(100001);
  p[100001] = 1;
  EXPECT_DEATH(blocks.Free(p), "written beyond");
  p[100001] = static_cast<char>(0xd6);
  p[-1] = 1;
  EXPECT_DEATH(blocks.Free(p), "written before");
  p[-1] = 0;
  blocks.Free(p);
}

TEST_P(Guarded, WrongFreesEndTheProgram) {
  char* const p = Make(200000);
  EXPECT_DEATH(blocks.SizeOf(p + 16, "free"), "unaligned");
  EXPECT_DEATH(blocks.SizeOf(p - 1, "free"), "unaligned");
  EXPECT_EQ(blocks.SizeOf(&page, "free"), 0u);
  blocks.Free(p);
  EXPECT_DEATH(blocks.SizeOf(p, "free"), "double free");
}

TEST_P(Guarded, ABlockGrowsAndShrinksBetweenItsGuards) {
  char* const p = static_cast<char*>(blocks.AllocateToGrow(300000));
  std::memset(p, 1, 300000);
  for (const size_t size : {size_t{300001}, size_t{400000}, size_t{310000}, kMiB, size_t{70000}}) {
    ASSERT_TRUE(blocks.Resize(p, size)) << size;
    EXPECT_EQ(blocks.SizeOf(p, "test"), size);
    EXPECT_EQ(p[65536], 1);
    std::memset(p, 1, size);
    EXPECT_DEATH(*static_cast<volatile char*>(p + RoundUp(size, page)) = 1, "");
    pages.heap.Verify();
  }
  blocks.Free(p);
  char* const q = Make(100000);  // ends at a guard: nowhere to grow
  EXPECT_FALSE(blocks.Resize(q, 200000));
  blocks.Free(q);
}

TEST_P(Guarded, ImpossibleSizesAreRefused) {
  EXPECT_EQ(blocks.Allocate(~size_t{0} - 1, 1), nullptr);
  EXPECT_EQ(blocks.Allocate(kMaxBlock, 1), nullptr);
  EXPECT_EQ(blocks.Allocate(1, size_t{1} << 62), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Kernel, Guarded, testing::Bool(),
                         [](const auto& p) { return p.param ? "Guards" : "ProtectedPages"; });

}  // namespace
}  // namespace granary::hardened
