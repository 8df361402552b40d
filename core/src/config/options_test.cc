#include "config/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/fake_die.h"

namespace granary {
namespace {

class OptionsTest : public testing::Test {
 protected:
  void SetUp() override { Warnings().clear(); }
  void TearDown() override { unsetenv("GRANARY_CONF"); }

  Options options_;
};

bool Same(const Options& a, const Options& b) {
  bool same = true;
#define OPTION(name, type, default_value, lowest, highest, at_run_time, meaning) \
  same &= a.name == b.name;
#include "config/options.def"
#undef OPTION
  return same;
}

TEST_F(OptionsTest, RowsAreWithinTheirBoundsAndExplained) {
  for (size_t i = 0; i < kOptionCount; ++i) {
    EXPECT_LE(kOptions[i].lowest, kOptions[i].default_value) << kOptions[i].name;
    EXPECT_GE(kOptions[i].highest, kOptions[i].default_value) << kOptions[i].name;
    EXPECT_GT(std::string(kOptions[i].meaning).size(), 10u) << kOptions[i].name;
  }
}

TEST_F(OptionsTest, AppliesSeveralRows) {
  EXPECT_TRUE(options_.Apply("dirty_decay_ms:250,background_thread:false,abort_conf:1"));
  EXPECT_EQ(options_.dirty_decay_ms, 250);
  EXPECT_FALSE(options_.background_thread);
  EXPECT_TRUE(options_.abort_conf);
  EXPECT_EQ(Warnings(), "");
}

TEST_F(OptionsTest, FixedRowsStayWhileTheProgramRuns) {
  EXPECT_FALSE(options_.Apply("dirty_decay_ms:20,abort_conf:true", true));
  EXPECT_EQ(options_.dirty_decay_ms, 20);
  EXPECT_FALSE(options_.abort_conf);
  EXPECT_NE(Warnings().find("option abort_conf cannot change while the program runs"),
            std::string::npos);
}

TEST_F(OptionsTest, EmptyRowsMeanNothing) {
  for (const char* text : {"", ",", ",,,", ",abort_conf:true,"}) {
    EXPECT_TRUE(options_.Apply(text)) << text;
  }
  EXPECT_TRUE(options_.abort_conf);
}

TEST_F(OptionsTest, TyposAreAnsweredWithTheNearestName) {
  struct {
    const char *text, *nearest;
  } const rows[] = {{"dirty_decay:1", "dirty_decay_ms"},
                    {"background_threads:true", "background_thread"},
                    {"abortconf:true", "abort_conf"},
                    {"check_on_exit:true", "check_at_exit"}};
  for (const auto& row : rows) {
    Warnings().clear();
    EXPECT_FALSE(options_.Apply(row.text));
    EXPECT_NE(Warnings().find("nearest is '" + std::string(row.nearest) + "'"), std::string::npos)
        << Warnings();
  }
  EXPECT_TRUE(Same(options_, Options{}));
}

TEST_F(OptionsTest, BoundsHold) {
  for (const char* text : {"dirty_decay_ms:-1", "dirty_decay_ms:0", "dirty_decay_ms:3600000"}) {
    EXPECT_TRUE(options_.Apply(text)) << text;
  }
  const Options before = options_;
  for (const char* text : {"dirty_decay_ms:-2", "dirty_decay_ms:3600001", "dirty_decay_ms:",
                           "dirty_decay_ms", "dirty_decay_ms:1x", "dirty_decay_ms:-",
                           "dirty_decay_ms: 1", "dirty_decay_ms:99999999999999999999999999",
                           "abort_conf:2", "abort_conf:-1", "abort_conf:yes"}) {
    Warnings().clear();
    EXPECT_FALSE(options_.Apply(text)) << text;
    EXPECT_NE(Warnings().find("stays as it is"), std::string::npos) << text;
    EXPECT_TRUE(Same(options_, before)) << text;
  }
}

TEST_F(OptionsTest, AWrongRowDoesNotStopTheOthers) {
  EXPECT_FALSE(options_.Apply("nonsense,dirty_decay_ms:7,abort_conf:maybe,check_at_exit:false"));
  EXPECT_EQ(options_.dirty_decay_ms, 7);
  EXPECT_FALSE(options_.check_at_exit);
  EXPECT_FALSE(options_.abort_conf);
}

TEST_F(OptionsTest, LongNamesAndValuesAreCutInTheWarning) {
  EXPECT_FALSE(options_.Apply((std::string(5000, 'x') + ":1").c_str()));
  EXPECT_FALSE(options_.Apply(("abort_conf:" + std::string(5000, 'y')).c_str()));
  EXPECT_LT(Warnings().size(), 513u);
}

TEST_F(OptionsTest, LoadsTheEnvironment) {
  setenv("GRANARY_CONF", "dirty_decay_ms:5,wrong:1", 1);
  options_.Load();
  EXPECT_EQ(options_.dirty_decay_ms, 5);
  EXPECT_NE(Warnings().find("no option 'wrong'"), std::string::npos);
}

using OptionsDeathTest = OptionsTest;

TEST_F(OptionsDeathTest, AbortConfEndsTheProgramOnAWrongRow) {
  setenv("GRANARY_CONF", "abort_conf:true,wrong:1", 1);
  EXPECT_DEATH(options_.Load(), "GRANARY_CONF is wrong");
}

}  // namespace
}  // namespace granary
