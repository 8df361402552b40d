#include "os/fake_os.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/bits.h"
#include "base/fake_die.h"
#include "os/mutex.h"

namespace granary {
namespace {

// Tests that the real and the fake system both behave as os.h says.
template <class System>
class Systems : public testing::Test {
 protected:
  void TearDown() override { FakeOs::Reset(); }
};
using All = testing::Types<Linux, FakeOs>;
TYPED_TEST_SUITE(Systems, All);

TYPED_TEST(Systems, MapsZeroedMemoryAtTheAlignmentAskedFor) {
  for (size_t alignment = 64 * kKiB; alignment <= 64 * kMiB; alignment *= 4) {
    auto* const p = static_cast<char*>(TypeParam::Map(kTrackerBytes, alignment, nullptr));
    ASSERT_NE(p, nullptr);
    EXPECT_TRUE(IsAligned(AddressOf(p), alignment));
    EXPECT_EQ(p[0], 0);
    p[kTrackerBytes - 1] = 1;
    TypeParam::Unmap(p, kTrackerBytes);
  }
}

TYPED_TEST(Systems, ReleasedMemoryReadsAsZero) {
  auto* const p = static_cast<char*>(TypeParam::Map(kTrackerBytes, kTrackerBytes, nullptr));
  const size_t page = TypeParam::PageSize();
  p[0] = p[page] = p[2 * page] = 7;
  EXPECT_TRUE(TypeParam::Purge(p + page, page));
  EXPECT_EQ(p[0], 7);
  EXPECT_EQ(p[page], 0);
  EXPECT_EQ(p[2 * page], 7);
  TypeParam::Unmap(p, kTrackerBytes);
}

TYPED_TEST(Systems, MovedPagesAreAtTheirNewAddressAndZeroAtTheOld) {
  auto* const p = static_cast<char*>(TypeParam::Map(2 * kTrackerBytes, kTrackerBytes, nullptr));
  const size_t page = TypeParam::PageSize();
  p[0] = 7;
  EXPECT_EQ(TypeParam::MovePages(p, page, p + kTrackerBytes).bytes, page);
  EXPECT_EQ(p[kTrackerBytes], 7);
  EXPECT_EQ(p[0], 0);
  TypeParam::Unmap(p, 2 * kTrackerBytes);
}

TYPED_TEST(Systems, RefusesWhatNoMachineHas) {
  EXPECT_EQ(TypeParam::Map(kMaxRequest / 2, kTrackerBytes, nullptr), nullptr);
}

TYPED_TEST(Systems, NamesItsFigures) {
  EXPECT_GE(TypeParam::PageSize(), kMinOsPage);
  EXPECT_GT(TypeParam::CpuCount(), 0u);
  EXPECT_GE(TypeParam::CpuLimit(), TypeParam::CpuCount());
  EXPECT_LE(TypeParam::NowMillis(), TypeParam::NowMillis());
}

TYPED_TEST(Systems, MutexLetsOneThreadIn) {
  Mutex<TypeParam> mutex;
  size_t count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        Locked hold(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 6000u);
}

TYPED_TEST(Systems, MutexIsRefusedWhileHeld) {
  Mutex<TypeParam> mutex;
  EXPECT_TRUE(mutex.TryLock());
  EXPECT_FALSE(mutex.TryLock());
  mutex.Unlock();
  EXPECT_TRUE(mutex.TryLock());
  mutex.Reset();
  EXPECT_TRUE(mutex.TryLock());
  mutex.Unlock();
}

TEST(FakeOs, RefusesTheChosenCalls) {
  FakeOs::Reset();
  FakeOs::RefuseMap(1, 2);
  EXPECT_NE(FakeOs::Map(kMiB, kMiB, nullptr), nullptr);
  EXPECT_EQ(FakeOs::Map(kMiB, kMiB, nullptr), nullptr);
  EXPECT_EQ(FakeOs::Map(kMiB, kMiB, nullptr), nullptr);
  EXPECT_NE(FakeOs::Map(kMiB, kMiB, nullptr), nullptr);
  EXPECT_EQ(FakeOs::MappedBytes(), 2 * kMiB);
  FakeOs::Reset();
  EXPECT_EQ(FakeOs::MappedBytes(), 0u);
}

TEST(FakeOsDeathTest, EndsAProcessThatReleasesUnmappedMemory) {
  FakeOs::Reset();
  auto* const p = static_cast<char*>(FakeOs::Map(kMiB, kMiB, nullptr));
  EXPECT_DEATH(FakeOs::Purge(p + kMiB - kMinOsPage, 2 * kMinOsPage), "check failed");
  EXPECT_DEATH(FakeOs::Unmap(p, kMiB / 2), "check failed");
  FakeOs::Reset();
}

}  // namespace
}  // namespace granary
