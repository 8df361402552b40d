#include "os/kernel_release.h"

#include <gtest/gtest.h>

namespace granary {
namespace {

TEST(KernelRelease, Arm64KernelsThatDoNotRestart) {
  for (const char* bad : {"6.19", "6.19.0-rc1", "6.19.12-arm64", "7.0.0-14-generic-64k", "7.0.9"})
    EXPECT_FALSE(RestartsPreempted(bad)) << bad;
  for (const char* good : {"6.1.0-44-arm64", "6.12.95", "6.18.44", "6.190.1", "7.1.0",
                           "7.3.4+deb13-arm64", "7.01", "17.0", "4.18.0", "6.", "7", ""})
    EXPECT_TRUE(RestartsPreempted(good)) << good;
}

}  // namespace
}  // namespace granary
