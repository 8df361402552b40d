#include "hardened/seal.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/bits.h"
#include "hardened/zeros.h"

namespace granary::hardened {
namespace {

constexpr size_t kRoom = 512;

struct Object {
  alignas(16) char bytes[kRoom] = {};
};

TEST(Seals, HoldTheSizeOfTheObject) {
  const Seals seals(0x123456789abcdef);
  for (size_t size = 0; size <= kRoom - kSealBytes; ++size) {
    Object o;
    EXPECT_TRUE(Seals::IsOpen(o.bytes, kRoom));
    EXPECT_FALSE(seals.IsWhole(o.bytes, kRoom));
    seals.Close(o.bytes, size, kRoom);
    ASSERT_TRUE(seals.IsWhole(o.bytes, kRoom)) << size;
    EXPECT_FALSE(Seals::IsOpen(o.bytes, kRoom));
    EXPECT_TRUE(Seals::MarginIsWhole(o.bytes, kRoom));
    EXPECT_EQ(Seals::SizeOf(o.bytes, kRoom), size);
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(o.bytes[i], 0) << "the object itself is untouched";
  }
}

TEST(Seals, AnyByteBehindTheObjectMatters) {
  const Seals seals(77);
  for (size_t size = kRoom - 128; size < kRoom - kSealBytes; ++size) {
    for (size_t at = size; at < kRoom; ++at) {
      Object o;
      seals.Close(o.bytes, size, kRoom);
      o.bytes[at] = static_cast<char>(o.bytes[at] ^ 1);
      EXPECT_FALSE(seals.IsWhole(o.bytes, kRoom) && Seals::MarginIsWhole(o.bytes, kRoom))
          << size << ' ' << at;
    }
  }
}

TEST(Seals, OfOneAddressDoNotFitAnother) {
  const Seals seals(99);
  Object a, b;
  seals.Close(a.bytes, 100, kRoom);
  std::memcpy(b.bytes, a.bytes, kRoom);
  EXPECT_FALSE(seals.IsWhole(b.bytes, kRoom));
}

TEST(Seals, OfOneSecretDoNotFitAnother) {
  Object o;
  Seals(99).Close(o.bytes, 100, kRoom);
  EXPECT_FALSE(Seals(101).IsWhole(o.bytes, kRoom));
}

TEST(Seals, BeginWithAZeroByte) {
  Object o;
  Seals(5).Close(o.bytes, kRoom - kSealBytes, kRoom);
  EXPECT_EQ(o.bytes[kRoom - kSealBytes], 0);
}

TEST(Zeros, FindOneByteAnywhere) {
  for (const size_t bytes : {8u, 64u, 72u, 136u, 512u}) {
    Object o;
    EXPECT_TRUE(IsZero(o.bytes, bytes));
    for (size_t at = 0; at < bytes; ++at) {
      o.bytes[at] = 1;
      EXPECT_FALSE(IsZero(o.bytes, bytes)) << bytes << ' ' << at;
      o.bytes[at] = 0;
    }
  }
}

TEST(Zeros, MakeZeroClearsPagesAndParts) {
  static char memory[3 * kMinOsPage + 80];
  std::memset(memory, 7, sizeof memory);
  MakeZero(memory, sizeof memory - 8);
  EXPECT_TRUE(IsZero(memory, sizeof memory - 8));
  EXPECT_EQ(memory[sizeof memory - 8], 7);
}

}  // namespace
}  // namespace granary::hardened
