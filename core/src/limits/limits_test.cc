#include "limits/limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/fake_die.h"
#include "base/units.h"
#include "config/options.h"
#include "os/linux.h"

namespace granary {
namespace {

// A folder in place of the root of the file system.
class FakeRoot {
 public:
  FakeRoot() {
    char name[] = "/tmp/granary-limits-XXXXXX";
    root_ = mkdtemp(name);
  }
  ~FakeRoot() { std::filesystem::remove_all(root_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  void Put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void Remove(const std::string& path) const { std::filesystem::remove(root_ + path); }
  const char* path() const { return root_.c_str(); }

 private:
  std::string root_;
};

class LimitsTest : public testing::Test {
 protected:
  void SetUp() override { options = Options{}; }
  void TearDown() override { options = Options{}; }

  // Writes a group of cgroup version 2 inside another group.
  void PutNested() const {
    root_.Put("/proc/self/cgroup", "0::/service/redis");
    root_.Put("/sys/fs/cgroup/service/memory.max", "1000000000");
    root_.Put("/sys/fs/cgroup/service/memory.current", "400000000");
    root_.Put("/sys/fs/cgroup/service/redis/memory.max", "max");
    root_.Put("/sys/fs/cgroup/service/redis/memory.high", "600000000");
    root_.Put("/sys/fs/cgroup/service/redis/memory.current", "350000000");
    root_.Put("/sys/fs/cgroup/service/redis/memory.stat", "anon 1\ninactive_file 50000000\nfile 7");
  }

  FakeRoot root_;
};

TEST_F(LimitsTest, TheTightestLevelOfVersionTwoApplies) {
  PutNested();
  Cgroup group(root_.path());
  GroupRoom room;
  ASSERT_TRUE(group.Read(&room));
  EXPECT_EQ(room.limit, 600000000u);
  EXPECT_EQ(room.used, 300000000u) << "without the file cache, which the kernel drops first";
  root_.Put("/sys/fs/cgroup/service/memory.current", "950000000");
  ASSERT_TRUE(group.Read(&room));
  EXPECT_EQ(room.limit, 1000000000u);
  EXPECT_EQ(room.Left(), 50000000u);
}

TEST_F(LimitsTest, VersionOneIsPreferredWhereItHasTheController) {
  root_.Put("/proc/self/cgroup", "5:cpu,memory:/service\n1:name=systemd:/init\n0::/other");
  root_.Put("/sys/fs/cgroup/memory/service/memory.limit_in_bytes", "500000000");
  root_.Put("/sys/fs/cgroup/memory/service/memory.usage_in_bytes", "100000000");
  root_.Put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  GroupRoom room;
  Cgroup group(root_.path());
  ASSERT_TRUE(group.Read(&room));
  EXPECT_EQ(room.limit, 500000000u);
  EXPECT_EQ(room.used, 100000000u);
}

TEST_F(LimitsTest, AContainerFindsItsOwnGroupAtTheTop) {
  root_.Put("/proc/self/cgroup", "0::/kubepods/pod1/abc");
  root_.Put("/sys/fs/cgroup/memory.max", "300000000");
  root_.Put("/sys/fs/cgroup/memory.current", "100000000");
  GroupRoom room;
  Cgroup group(root_.path());
  ASSERT_TRUE(group.Read(&room));
  EXPECT_EQ(room.limit, 300000000u);
}

TEST_F(LimitsTest, NoGroupNoFileAndNoLimitAreNoCeiling) {
  GroupRoom room;
  EXPECT_FALSE(Cgroup(root_.path()).Read(&room)) << "there is no file at all";
  root_.Put("/proc/self/cgroup", "broken\n0:\n3:cpu:/x");
  EXPECT_FALSE(Cgroup(root_.path()).Read(&room));
  root_.Put("/proc/self/cgroup", "0::/free");
  root_.Put("/sys/fs/cgroup/free/memory.max", "max");
  root_.Put("/sys/fs/cgroup/free/memory.current", "100000000");
  EXPECT_FALSE(Cgroup(root_.path()).Read(&room));
  Limits limits(root_.path());
  limits.Refresh(kGiB);
  EXPECT_EQ(limits.ceiling(), Limits::kNone);
  EXPECT_FALSE(limits.under_pressure());
}

TEST_F(LimitsTest, TheCeilingIsWhatIsHeldAndWhatIsLeftButForAMargin) {
  PutNested();
  Limits limits(root_.path());
  limits.Refresh(200000000);
  EXPECT_EQ(limits.ceiling(), 200000000u + 300000000u - 600000000u / 10);
  const size_t pages = 100000000 / Linux::PageSize();
  root_.Put("/proc/self/statm", "999999 " + std::to_string(pages) + " 3 4 0 5 0");
  limits.Refresh(200000000);
  EXPECT_EQ(limits.ceiling(), pages * Linux::PageSize() + 300000000u - 600000000u / 10)
      << "no more of it is in memory";
  options.follow_cgroup = false;
  limits.Refresh(200000000);
  EXPECT_EQ(limits.ceiling(), Limits::kNone);
}

TEST_F(LimitsTest, AGroupThatOtherProcessesFillIsACeilingToo) {
  PutNested();
  root_.Put("/sys/fs/cgroup/service/memory.current", "1000000000");
  Limits limits(root_.path());
  limits.Refresh(kMiB);
  EXPECT_LT(limits.ceiling(), kMiB);
}

TEST_F(LimitsTest, ScarcityEndsWellAboveWhereItBegan) {
  PutNested();
  Limits limits(root_.path());
  const auto pressure_at = [&](const char* used) {
    root_.Put("/sys/fs/cgroup/service/redis/memory.current", used);
    limits.Refresh(200000000);
    return limits.under_pressure();
  };
  EXPECT_FALSE(pressure_at("350000000"));
  EXPECT_TRUE(pressure_at("640000000"));
  EXPECT_TRUE(pressure_at("590000000")) << "a tenth of the limit is free, which is not ample";
  EXPECT_FALSE(pressure_at("550000000"));
  EXPECT_FALSE(pressure_at("590000000"));
}

TEST_F(LimitsTest, TheLowestCeilingApplies) {
  PutNested();
  Limits limits(root_.path());
  options.soft_limit = 300000000;
  limits.Refresh(200000000);
  EXPECT_EQ(limits.ceiling(), 300000000u);
  options.hard_limit = 250000000;
  limits.Refresh(200000000);
  EXPECT_EQ(limits.ceiling(), 250000000u);
}

TEST_F(LimitsTest, PressureHasHysteresis) {
  Limits limits(root_.path());
  const auto pressure_at = [&](const std::string& percent) {
    root_.Put("/proc/pressure/memory", "some avg10=" + percent + " avg60=0.00\nfull avg10=99.00");
    limits.Refresh(0);
    return limits.under_pressure();
  };
  EXPECT_FALSE(pressure_at("9.99"));
  EXPECT_TRUE(pressure_at("10.00"));
  EXPECT_TRUE(pressure_at("5.00"));
  EXPECT_FALSE(pressure_at("1.99"));
  EXPECT_FALSE(pressure_at("5.00"));
  EXPECT_TRUE(pressure_at("100.00"));
  options.follow_pressure = false;
  EXPECT_FALSE(pressure_at("100.00"));
}

TEST_F(LimitsTest, PressureOfAGroupOfVersionTwoIsItsOwn) {
  PutNested();
  root_.Put("/proc/pressure/memory", "some avg10=50.00");
  root_.Put("/sys/fs/cgroup/service/redis/memory.pressure", "some avg10=0.00");
  Limits limits(root_.path());
  limits.Refresh(0);
  EXPECT_FALSE(limits.under_pressure());
}

TEST_F(LimitsTest, PathsThatDoNotFitAreNotRead) {
  root_.Put("/proc/self/cgroup", "0::/" + std::string(1000, 'x'));
  GroupRoom room;
  EXPECT_FALSE(Cgroup(root_.path()).Read(&room));
  Path path;
  EXPECT_FALSE(path.Set("/a", std::string(600, 'b').c_str(), ""));
  EXPECT_STREQ(path.text(), "");
}

}  // namespace
}  // namespace granary
