#include "base/bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <random>

#include "base/fake_die.h"
#include "base/units.h"

namespace granary {
namespace {

constexpr size_t kBits = 256;

TEST(Bits, RoundingKeepsMultiplesAndMovesOtherNumbers) {
  for (size_t power = 1; power <= 4096; power *= 2) {
    for (size_t n = 0; n < 10000; n += 7) {
      ASSERT_EQ(RoundUp(n, power), (n + power - 1) / power * power);
      ASSERT_EQ(RoundDown(n, power), n / power * power);
      ASSERT_EQ(IsAligned(n, power), n % power == 0);
    }
  }
  EXPECT_EQ(DivideUp(0, 3), 0u);
  EXPECT_EQ(DivideUp(4, 3), 2u);
}

TEST(Bits, MasksHaveExactlyTheRequestedBits) {
  for (unsigned first = 0; first <= 64; ++first) {
    for (unsigned count = 0; first + count <= 64; ++count) {
      uint64_t expected = 0;
      for (unsigned i = 0; i < count; ++i) expected |= uint64_t{1} << (first + i);
      if (first == 64) continue;
      ASSERT_EQ(MaskOf(first, count), expected) << first << " " << count;
    }
  }
}

std::bitset<kBits> ToSet(const uint64_t* words) {
  std::bitset<kBits> set;
  for (size_t i = 0; i < kBits; ++i) set[i] = ((words[i / 64] >> (i % 64)) & 1) != 0;
  return set;
}

TEST(Bits, RangesAgreeWithABitset) {
  std::mt19937 random(1);
  uint64_t words[kBits / 64] = {};
  std::bitset<kBits> model;
  for (int step = 0; step < 3000; ++step) {
    const size_t first = random() % kBits;
    const size_t count = random() % (kBits - first + 1);
    const bool set = random() % 2 == 0;
    (set ? SetBits : ClearBits)(words, first, count);
    for (size_t i = first; i < first + count; ++i) model[i] = set;
    ASSERT_EQ(ToSet(words), model);
    const size_t from = random() % kBits;
    const size_t length = random() % (kBits - from + 1);
    size_t expected = 0;
    for (size_t i = from; i < from + length; ++i) expected += model[i];
    ASSERT_EQ(CountBits(words, from, length), expected);
    ASSERT_EQ(AllSet(words, from, length), expected == length);
  }
}

TEST(Bits, RunsAreMaximalAndInOrder) {
  std::mt19937 random(2);
  for (int step = 0; step < 500; ++step) {
    uint64_t words[kBits / 64];
    for (uint64_t& word : words) word = (uint64_t{random()} << 32 | random()) & ~uint64_t{random()};
    const std::bitset<kBits> model = ToSet(words);
    const size_t limit = random() % (kBits + 1);
    const bool value = random() % 2 == 0;
    size_t at = 0;
    for (BitRun run = NextRun(words, 0, limit, value); run.count > 0;
         run = NextRun(words, run.first + run.count, limit, value)) {
      for (; at < run.first; ++at) ASSERT_NE(model[at], value);
      for (; at < run.first + run.count; ++at) ASSERT_EQ(model[at], value);
      ASSERT_LE(at, limit);
    }
    for (; at < limit; ++at) ASSERT_NE(model[at], value);
  }
}

TEST(Bits, FieldsAgreeWithABitset) {
  std::mt19937_64 random(2);
  for (int step = 0; step < 3000; ++step) {
    uint64_t words[kBits / 64] = {random(), random(), random(), random()};
    std::bitset<kBits> model = ToSet(words);
    const size_t first = random() % kBits;
    const size_t count = std::min<size_t>(random() % 65, kBits - first);
    const uint64_t field = BitsAt(words, first, count);
    for (size_t i = 0; i < 64; ++i) {
      ASSERT_EQ(((field >> i) & 1) != 0, i < count && model[first + i]);
    }
    const uint64_t more = count == 0 ? 0 : random() & MaskOf(0, static_cast<unsigned>(count));
    SetBitsAt(words, first, more);
    for (size_t i = 0; i < count; ++i)
      model[first + i] = model[first + i] || ((more >> i) & 1) != 0;
    ASSERT_EQ(ToSet(words), model);
  }
}

TEST(Bits, RunBeginIsAfterTheLastOtherBit) {
  std::mt19937_64 random(4);
  for (int step = 0; step < 3000; ++step) {
    const uint64_t sparse = random() & random() & random() & random();
    uint64_t words[kBits / 64] = {sparse, step % 3 == 0 ? 0 : ~sparse, 0, ~uint64_t{0}};
    const std::bitset<kBits> model = ToSet(words);
    const size_t end = random() % (kBits + 1);
    const bool value = step % 2 == 0;
    size_t begin = end;
    while (begin > 0 && model[begin - 1] == value) --begin;
    ASSERT_EQ(RunBegin(words, end, value), begin);
  }
}

TEST(RunSet, AgreesWithRunsFoundBitByBit) {
  std::mt19937_64 random(3);
  for (int step = 0; step < 3000; ++step) {
    uint64_t words[2] = {random(), random()};
    for (int i = step % 4; i > 0; --i) {  // longer runs
      for (uint64_t& word : words) word |= random();
    }
    if (step % 7 == 0) words[step % 2] = step % 3 == 0 ? ~uint64_t{0} : 0;
    RunSet set(Uint128{words[1]} << 64 | words[0]);
    for (BitRun run = NextRun(words, 0, 128, true); run.count > 0;
         run = NextRun(words, run.first + run.count, 128, true)) {
      ASSERT_FALSE(set.empty());
      const BitRun taken = set.TakeLowest();
      ASSERT_EQ(taken.first, run.first);
      ASSERT_EQ(taken.count, run.count);
    }
    ASSERT_TRUE(set.empty());
  }
  RunSet full(~Uint128{0});
  EXPECT_EQ(full.TakeLowest().count, 128u);
}

}  // namespace
}  // namespace granary
