#include "unwind/cfi.h"

#include <gtest/gtest.h>

#include "base/fake_die.h"
#include "unwind/dwarf_registers.h"
#include "unwind/fake_tables.h"

namespace granary::unwind {
namespace {

constexpr uint8_t kSp = kSpNumber, kFp = kFpNumber, kPc = kPcNumber;

// The rule at `offset` in the function.
Rule RuleAt(const FakeTables& tables, uintptr_t offset) {
  const std::vector<uint8_t> bytes = tables.Build();
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  return FindRule({begin, begin + bytes.size(), begin}, begin + FakeTables::kCode + offset);
}

// def_cfa sp + 8; the return address at cfa - 8: as on x86-64 at a function's first instruction.
FakeTables Ordinary() { return FakeTables().Common({0x0c, kSp, 8, 0x80 | kPc, 1}); }

void ExpectPlace(const Place& place, Place::Kind kind, Base base, int offset) {
  EXPECT_EQ(place.kind, kind);
  EXPECT_EQ(place.base, base);
  EXPECT_EQ(place.offset, offset);
}

TEST(Cfi, UsesTheRowOfTheAddress) {
  // push fp; mov sp, fp; ...; pop
  FakeTables tables = Ordinary();
  tables.Program({0x41, 0x0e, 16, 0x80 | kFp, 2, 0x43, 0x0d, kFp, 0x02, 200, 0x0c, kSp, 8});
  const Rule first = RuleAt(tables, 0);
  EXPECT_EQ(first.kind, Rule::kStep);
  EXPECT_EQ(first.base, Base::kSp);
  EXPECT_EQ(first.inner, 8);
  ExpectPlace(first.pc, Place::kSaved, Base::kCfa, -8);
  EXPECT_EQ(first.fp.kind, Place::kSame);
  const Rule pushed = RuleAt(tables, 1);
  EXPECT_EQ(pushed.inner, 16);
  ExpectPlace(pushed.fp, Place::kSaved, Base::kCfa, -16);
  EXPECT_EQ(RuleAt(tables, 3).base, Base::kSp);
  EXPECT_EQ(RuleAt(tables, 4).base, Base::kFp);
  EXPECT_EQ(RuleAt(tables, 203).base, Base::kFp);
  EXPECT_EQ(RuleAt(tables, 204).base, Base::kSp);
}

TEST(Cfi, HasNoRuleOutsideTheFunction) {
  EXPECT_EQ(RuleAt(Ordinary(), ~uintptr_t{0}).kind, Rule::kNone);
  EXPECT_EQ(RuleAt(Ordinary(), FakeTables::kFunction - 1).kind, Rule::kStep);
  EXPECT_EQ(RuleAt(Ordinary(), FakeTables::kFunction).kind, Rule::kNone);
}

TEST(Cfi, RemembersAndRestores) {
  FakeTables tables = Ordinary();
  tables.Program({0x0e, 16, 0x80 | kFp, 2, 0x0a, 0x41, 0x0e, 8, 0xc0 | kFp, 0x41, 0x0b});
  EXPECT_EQ(RuleAt(tables, 0).inner, 16);
  EXPECT_EQ(RuleAt(tables, 1).inner, 8);
  EXPECT_EQ(RuleAt(tables, 1).fp.kind, Place::kSame);
  EXPECT_EQ(RuleAt(tables, 2).inner, 16);
  EXPECT_EQ(RuleAt(tables, 2).fp.kind, Place::kSaved);
}

TEST(Cfi, EndsWhereTheReturnAddressIsUndefined) {
  EXPECT_EQ(RuleAt(Ordinary().Program({0x07, kPc}), 0).kind, Rule::kOutermost);
}

TEST(Cfi, KnowsFramesOfSignals) {
  EXPECT_FALSE(RuleAt(Ordinary(), 0).signal);
  EXPECT_TRUE(RuleAt(Ordinary().Letters("zRS", {FakeTables::kRelative4}), 0).signal);
}

TEST(Cfi, SkipsOtherAugmentations) {
  // A personality (4 bytes) and the encoding of its data.
  FakeTables tables = Ordinary();
  tables.Letters("zPLR", {0x1b, 1, 2, 3, 4, 0x1b, FakeTables::kRelative4});
  EXPECT_EQ(RuleAt(tables, 0).kind, Rule::kStep);
}

#if defined(__x86_64__)
TEST(Cfi, FollowsPltStubs) {
  // def_cfa_expression: sp + 8 + ((pc & 15) >= 11) * 8
  const FakeTables tables =
      Ordinary().Program({0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22});
  const std::vector<uint8_t> bytes = tables.Build();
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  for (uintptr_t pc = begin + FakeTables::kCode; pc < begin + FakeTables::kCode + 32; ++pc) {
    const Rule rule = FindRule({begin, begin + bytes.size(), begin}, pc);
    EXPECT_EQ(rule.kind, Rule::kStep);
    EXPECT_EQ(rule.base, Base::kSp);
    EXPECT_EQ(rule.inner, pc % 16 >= 11 ? 16 : 8);
  }
}

TEST(Cfi, FollowsRealignedStacks) {
  // def_cfa_expression: the word at fp - 8; fp itself at fp + 0.
  const Rule rule =
      RuleAt(Ordinary().Program({0x0f, 3, 0x76, 0x78, 0x06, 0x10, kFp, 2, 0x76, 0}), 0);
  EXPECT_EQ(rule.kind, Rule::kStep);
  EXPECT_TRUE(rule.loaded);
  EXPECT_EQ(rule.base, Base::kFp);
  EXPECT_EQ(rule.inner, -8);
  EXPECT_EQ(rule.outer, 0);
  ExpectPlace(rule.fp, Place::kSaved, Base::kFp, 0);
}
#endif

TEST(Cfi, ReportsWhatItCannotFollow) {
  EXPECT_EQ(RuleAt(Ordinary().Program({0x0d, 0}), 0).kind, Rule::kNotFollowed);
  EXPECT_EQ(RuleAt(Ordinary().Program({0x09, kPc, 0}), 0).kind, Rule::kNotFollowed);
  EXPECT_EQ(RuleAt(Ordinary().Program({0x0b}), 0).kind, Rule::kNotFollowed);
  EXPECT_EQ(RuleAt(Ordinary().Program({0x3f}), 0).kind, Rule::kNotFollowed);
  EXPECT_EQ(RuleAt(Ordinary().Program({0x0f, 100}), 0).kind, Rule::kNotFollowed);
}

TEST(Cfi, PlacesFarOutAreRelativeToTheInnerEnd) {
  // cfa = sp + 0x12340, fp at cfa - 0x12340 + 16.
  const Rule rule =
      RuleAt(Ordinary().Program({0x0e, 0xc0, 0xc6, 0x04, 0x05, kFp, 0xe6, 0xc8, 0x00}), 0);
  EXPECT_EQ(rule.inner, 0x12340);
  ExpectPlace(rule.fp, Place::kSaved, Base::kSp, 0x12340 - 8 * 0x2466);
}

}  // namespace
}  // namespace granary::unwind
