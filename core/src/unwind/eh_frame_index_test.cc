#include "unwind/eh_frame_index.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/fake_die.h"
#include "unwind/cfi.h"
#include "unwind/fake_tables.h"

namespace granary::unwind {
namespace {

// Offset after the fake index: four bytes each of head, number of rows, and one row of two.
constexpr uintptr_t kFramesAt = 20;

TEST(EhFrameIndex, FindsAnEntryWithoutAnIndex) {
  const std::vector<uint8_t> module = FakeTables().Build();
  const auto begin = reinterpret_cast<uintptr_t>(module.data());
  const uintptr_t code = begin + FakeTables::kCode;
  const uintptr_t end = code + FakeTables::kFunction;
  const auto rows = std::make_unique<EhFrameIndex>();
  Tables tables;
  EXPECT_FALSE(rows->Find(code, &tables));
  ASSERT_TRUE(rows->MakeFrom(begin, end, {begin + kFramesAt, begin + module.size()}));
  ASSERT_TRUE(rows->Find(code + 1, &tables));
  const Rule made = FindRule(tables, code + 1);
  const Rule indexed = FindRule({begin, end, begin}, code + 1);
  EXPECT_EQ(made.kind, indexed.kind);
  EXPECT_EQ(made.inner, indexed.inner);
  EXPECT_FALSE(rows->Find(end, &tables));
}

TEST(EhFrameIndex, IsNotMadeFromDamagedFrames) {
  const std::vector<uint8_t> module(64, 0xa5);
  const auto begin = reinterpret_cast<uintptr_t>(module.data());
  const auto rows = std::make_unique<EhFrameIndex>();
  EXPECT_FALSE(rows->MakeFrom(begin, begin + 64, {begin, begin + 64}));
  EXPECT_FALSE(rows->MakeFrom(begin, begin + 64, {begin, begin + 65}));
  Tables tables;
  EXPECT_FALSE(rows->Find(begin, &tables));
}

}  // namespace
}  // namespace granary::unwind
