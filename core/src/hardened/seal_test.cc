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
  const Seals seals(0x123456789abcdef, 0xfedcba987654321);
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
  const Seals seals(77, 78);
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

TEST(Seals, CloseFreeWritesWhatCloseDoes) {
  const Seals seals(3, 4);
  for (const size_t room : {16u, 24u, 32u, 48u, 64u, 512u}) {
    for (size_t size = 0; size <= room - kSealBytes; ++size) {
      Object o;
      seals.Close(o.bytes, size, room);
      const Object closed = o;
      std::memset(o.bytes, 0, room);
      seals.CloseFree(o.bytes, size, room);
      ASSERT_EQ(std::memcmp(o.bytes, closed.bytes, kRoom), 0) << room << ' ' << size;
    }
  }
}

TEST(Seals, AnyByteBehindASmallObjectMatters) {
  const Seals seals(5, 6);
  for (const size_t room : {16u, 24u, 32u, 48u}) {
    for (size_t size = 0; size < room - kSealBytes; ++size) {
      Object o;
      seals.CloseFree(o.bytes, size, room);
      for (size_t at = 0; at < room; ++at) {
        o.bytes[at] = static_cast<char>(o.bytes[at] ^ 0x80);
        EXPECT_EQ(seals.IsWhole(o.bytes, room) && Seals::MarginIsWhole(o.bytes, room), at < size)
            << room << ' ' << size << ' ' << at;
        o.bytes[at] = static_cast<char>(o.bytes[at] ^ 0x80);
      }
    }
  }
}

TEST(Seals, OfOneAddressDoNotFitAnother) {
  const Seals seals(99, 100);
  Object a, b;
  seals.Close(a.bytes, 100, kRoom);
  std::memcpy(b.bytes, a.bytes, kRoom);
  EXPECT_FALSE(seals.IsWhole(b.bytes, kRoom));
}

TEST(Seals, OfOneSecretDoNotFitAnother) {
  Object o;
  Seals(99, 100).Close(o.bytes, 100, kRoom);
  EXPECT_FALSE(Seals(101, 100).IsWhole(o.bytes, kRoom));
  EXPECT_FALSE(Seals(99, 101).IsWhole(o.bytes, kRoom));
}

TEST(Seals, BeginWithAZeroByte) {
  Object o;
  Seals(5, 6).Close(o.bytes, kRoom - kSealBytes, kRoom);
  EXPECT_EQ(o.bytes[kRoom - kSealBytes], 0);
}

TEST(Zeros, FindOneByteAnywhere) {
  for (size_t bytes = 8; bytes <= kRoom; bytes += 8) {
    Object o;
    EXPECT_TRUE(IsZero(o.bytes, bytes));
    for (size_t at = 0; at < bytes; ++at) {
      o.bytes[at] = 1;
      EXPECT_FALSE(IsZero(o.bytes, bytes)) << bytes << ' ' << at;
      o.bytes[at] = 0;
    }
  }
}

TEST(Zeros, MakeZeroClearsAllAndNoMore) {
  for (size_t bytes = 8; bytes <= kRoom - 8; bytes += 8) {
    Object o;
    std::memset(o.bytes, 7, kRoom);
    MakeZero(o.bytes, bytes);
    EXPECT_TRUE(IsZero(o.bytes, bytes)) << bytes;
    EXPECT_EQ(o.bytes[bytes], 7) << bytes;
  }
}

TEST(Zeros, MakePagesZeroClearsPagesAndParts) {
  static char memory[3 * kMinOsPage + 80];
  std::memset(memory, 7, sizeof memory);
  MakePagesZero(memory, sizeof memory - 8);
  EXPECT_TRUE(IsZero(memory, sizeof memory - 8));
  EXPECT_EQ(memory[sizeof memory - 8], 7);
}

}  // namespace
}  // namespace granary::hardened
