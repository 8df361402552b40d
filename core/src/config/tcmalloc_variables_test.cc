#include "config/tcmalloc_variables.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/fake_die.h"

namespace granary {
namespace {

unsigned FourCpus() { return 4; }

class TcmallocVariablesTest : public testing::Test {
 protected:
  void SetUp() override { Warnings().clear(); }
  void TearDown() override {
    for (const char* name : {"TCMALLOC_RELEASE_RATE", "TCMALLOC_AGGRESSIVE_DECOMMIT",
                             "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES"}) {
      unsetenv(name);
    }
  }
  bool With(const char* name, const char* value) {
    setenv(name, value, 1);
    return ApplyTcmallocVariables(options_, &FourCpus);
  }

  Options options_;
};

TEST_F(TcmallocVariablesTest, NoneChangesNothing) {
  EXPECT_TRUE(ApplyTcmallocVariables(options_, &FourCpus));
  for (size_t row = 0; row < kOptionCount; ++row) EXPECT_EQ(options_.source[row], Source::kDefault);
}

TEST_F(TcmallocVariablesTest, TheRateDividesTheDecayTime) {
  EXPECT_TRUE(With("TCMALLOC_RELEASE_RATE", "10"));
  EXPECT_EQ(options_.dirty_decay_ms, 100);
  EXPECT_TRUE(With("TCMALLOC_RELEASE_RATE", "0.5"));
  EXPECT_EQ(options_.dirty_decay_ms, 2000);
  EXPECT_TRUE(With("TCMALLOC_RELEASE_RATE", "0"));
  EXPECT_EQ(options_.dirty_decay_ms, -1);
}

TEST_F(TcmallocVariablesTest, TheCachesShareTheirTotal) {
  EXPECT_TRUE(With("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "33554432"));
  EXPECT_EQ(options_.cache_bytes, 8388608);
  EXPECT_TRUE(With("TCMALLOC_AGGRESSIVE_DECOMMIT", "1"));
  EXPECT_EQ(options_.dirty_decay_ms, 0);
}

TEST_F(TcmallocVariablesTest, WrongValuesAreNamed) {
  EXPECT_FALSE(With("TCMALLOC_RELEASE_RATE", "fast"));
  EXPECT_NE(Warnings().find("TCMALLOC_RELEASE_RATE cannot be 'fast'"), std::string::npos)
      << Warnings();
  EXPECT_EQ(options_.dirty_decay_ms, 1000);
}

}  // namespace
}  // namespace granary
