#include "config/apply_text.h"

#include <gtest/gtest.h>

#include <string>

#include "base/fake_die.h"
#include "config/report.h"

namespace granary {
namespace {

struct Texts {
  const char *meaning, *when;
};
constexpr Texts kTexts[] = {
#define OPTION(name, type, default_value, lowest, highest, at_run_time, unit, meaning, when) \
  {meaning, when},
#include "config/options.def"
#undef OPTION
};

class OptionsTest : public testing::Test {
 protected:
  void SetUp() override { Warnings().clear(); }
  bool Apply(const std::string& text) {
    return ApplyText(options_, {text.data(), text.size()}, Source::kGranaryVariable);
  }

  Options options_;
};

bool Same(const Options& a, const Options& b) {
  bool same = true;
  for (size_t row = 0; row < kOptionCount; ++row) same &= a.Get(row) == b.Get(row);
  return same;
}

size_t RowOf(const char* name) {
  size_t row = 0;
  while (row < kOptionCount && std::string(kOptions[row].name) != name) ++row;
  return row;
}

TEST_F(OptionsTest, DefaultsAreWithinTheirBoundsAndExplained) {
  for (size_t i = 0; i < kOptionCount; ++i) {
    EXPECT_LE(kOptions[i].lowest, kOptions[i].default_value) << kOptions[i].name;
    EXPECT_GE(kOptions[i].highest, kOptions[i].default_value) << kOptions[i].name;
    EXPECT_GT(std::string(kTexts[i].meaning).size(), 10u) << kOptions[i].name;
    EXPECT_GT(std::string(kTexts[i].when).size(), 10u) << kOptions[i].name;
    EXPECT_LT(std::string(kOptions[i].name).size(), sizeof(OptionInfo::name)) << kOptions[i].name;
    EXPECT_EQ(options_.Get(i), kOptions[i].default_value) << kOptions[i].name;
    EXPECT_EQ(options_.source[i], Source::kDefault) << kOptions[i].name;
  }
}

TEST_F(OptionsTest, AppliesSeveralRows) {
  EXPECT_TRUE(Apply("dirty_decay_ms:250,background_thread:false,abort_conf:1"));
  EXPECT_EQ(options_.dirty_decay_ms, 250);
  EXPECT_FALSE(options_.background_thread);
  EXPECT_TRUE(options_.abort_conf);
  EXPECT_EQ(Warnings(), "");
}

TEST_F(OptionsTest, TheLaterSourceWinsAndIsRemembered) {
  EXPECT_TRUE(ApplyText(options_, "dirty_decay_ms:1,cache:false", Source::kFile));
  EXPECT_TRUE(ApplyText(options_, "dirty_decay_ms:2", Source::kGranaryVariable));
  EXPECT_EQ(options_.dirty_decay_ms, 2);
  EXPECT_EQ(options_.source[RowOf("dirty_decay_ms")], Source::kGranaryVariable);
  EXPECT_EQ(options_.source[RowOf("cache")], Source::kFile);
  EXPECT_EQ(options_.source[RowOf("zero")], Source::kDefault);
}

TEST_F(OptionsTest, ReadsLinesAndComments) {
  EXPECT_TRUE(
      Apply("# a file\n  dirty_decay_ms : 9  \n\n#cache:false\ncheck_at_exit:false,zero:true\n"));
  EXPECT_EQ(options_.dirty_decay_ms, 9);
  EXPECT_TRUE(options_.cache);
  EXPECT_FALSE(options_.check_at_exit);
  EXPECT_TRUE(options_.zero);
  EXPECT_EQ(Warnings(), "");
}

TEST_F(OptionsTest, AcceptsWords) {
  EXPECT_TRUE(Apply("junk:free,zero_realloc:abort,huge_pages:never"));
  EXPECT_EQ(options_.junk, 2);
  EXPECT_EQ(options_.zero_realloc, 2);
  EXPECT_EQ(options_.huge_pages, 2);
  EXPECT_FALSE(Apply("junk:maybe"));
  EXPECT_NE(Warnings().find("give false, alloc, free or true"), std::string::npos) << Warnings();
}

TEST_F(OptionsTest, FixedRowsStayWhileTheProgramRuns) {
  EXPECT_FALSE(ApplyText(options_, "dirty_decay_ms:20,abort_conf:true", Source::kRunning));
  EXPECT_EQ(options_.dirty_decay_ms, 20);
  EXPECT_FALSE(options_.abort_conf);
  EXPECT_NE(Warnings().find("option abort_conf cannot change while the program runs"),
            std::string::npos);
}

TEST_F(OptionsTest, EmptyRowsMeanNothing) {
  for (const char* text : {"", ",", ",,,", ",abort_conf:true,", "\n", " , "}) {
    EXPECT_TRUE(Apply(text)) << text;
  }
  EXPECT_TRUE(options_.abort_conf);
}

TEST_F(OptionsTest, WarningsAboutTyposNameTheNearestOption) {
  struct {
    const char *text, *nearest;
  } const rows[] = {{"dirty_decay:1", "dirty_decay_ms"},
                    {"background_threads:true", "background_thread"},
                    {"abortconf:true", "abort_conf"},
                    {"check_on_exit:true", "check_at_exit"}};
  for (const auto& row : rows) {
    Warnings().clear();
    EXPECT_FALSE(Apply(row.text));
    EXPECT_NE(Warnings().find("nearest is '" + std::string(row.nearest) + "'"), std::string::npos)
        << Warnings();
    EXPECT_NE(Warnings().find("GRANARY_CONF"), std::string::npos) << Warnings();
  }
  EXPECT_TRUE(Same(options_, Options{}));
}

TEST_F(OptionsTest, BoundsHold) {
  for (const char* text : {"dirty_decay_ms:-1", "dirty_decay_ms:0", "dirty_decay_ms:3600000",
                           "dirty_decay_ms:0x10", "dirty_decay_ms:010"}) {
    EXPECT_TRUE(Apply(text)) << text;
  }
  EXPECT_EQ(options_.dirty_decay_ms, 8);
  const Options before = options_;
  for (const char* text :
       {"dirty_decay_ms:-2", "dirty_decay_ms:3600001", "dirty_decay_ms:", "dirty_decay_ms",
        "dirty_decay_ms:1x", "dirty_decay_ms:-", "dirty_decay_ms:08", "dirty_decay_ms:0x",
        "dirty_decay_ms:99999999999999999999999999", "abort_conf:2", "abort_conf:-1",
        "abort_conf:yes"}) {
    Warnings().clear();
    EXPECT_FALSE(Apply(text)) << text;
    EXPECT_NE(Warnings().find("keeps its value"), std::string::npos) << text;
    EXPECT_TRUE(Same(options_, before)) << text;
  }
  Apply("dirty_decay_ms:-2");
  EXPECT_NE(Warnings().find("give -1 to 3600000"), std::string::npos) << Warnings();
}

TEST_F(OptionsTest, TheBoundsThemselvesAreAccepted) {
  EXPECT_TRUE(Apply("soft_limit:9223372036854775807"));
  EXPECT_EQ(options_.soft_limit, INT64_MAX);
  EXPECT_TRUE(Apply("soft_limit:0x7fffffffffffffff"));
  EXPECT_FALSE(Apply("soft_limit:9223372036854775808"));
  EXPECT_FALSE(Apply("soft_limit:0x8000000000000000"));
  EXPECT_TRUE(Apply("dirty_decay_ms:-1"));
  EXPECT_TRUE(Apply("dirty_decay_ms:3600000"));
}

TEST_F(OptionsTest, SizesAndDurationsTakeUnits) {
  struct {
    const char* text;
    int64_t value;
  } const sizes[] = {{"hard_limit:50MiB", 50 << 20},    {"hard_limit=1gib", 1 << 30},
                     {"hard_limit: 64 KiB ", 64 << 10}, {"hard_limit:3TiB", int64_t{3} << 40},
                     {"hard_limit:2KB", 2000},          {"hard_limit:3mb", 3000000},
                     {"hard_limit:1GB", 1000000000},    {"hard_limit:010B", 10},
                     {"hard_limit:1TB", 1000000000000}};
  for (const auto& row : sizes) {
    EXPECT_TRUE(Apply(row.text)) << row.text;
    EXPECT_EQ(options_.hard_limit, row.value) << row.text;
  }
  struct {
    const char* text;
    int64_t value;
  } const durations[] = {{"dirty_decay_ms:5s", 5000},
                         {"dirty_decay_ms=250ms", 250},
                         {"dirty_decay_ms:2 M", 120000},
                         {"dirty_decay_ms=1h", 3600000}};
  for (const auto& row : durations) {
    EXPECT_TRUE(Apply(row.text)) << row.text;
    EXPECT_EQ(options_.dirty_decay_ms, row.value) << row.text;
  }
}

TEST_F(OptionsTest, UnitsOfAnotherKindAndLettersAloneAreRefused) {
  const Options before = options_;
  for (const char* text :
       {"hard_limit:5s", "hard_limit:50M", "hard_limit:MiB", "hard_limit:-1MiB",
        "hard_limit:1.5GiB", "hard_limit:8388608TiB", "hard_limit:99999999999999999999KiB",
        "dirty_decay_ms:5MiB", "dirty_decay_ms:2h", "dirty_decay_ms:-1s", "cache_count:4KiB",
        "abort_conf:1s"}) {
    EXPECT_FALSE(Apply(text)) << text;
    EXPECT_TRUE(Same(options_, before)) << text;
  }
  EXPECT_NE(Warnings().find("or a size such as 50MiB"), std::string::npos) << Warnings();
  EXPECT_NE(Warnings().find("or a duration such as 5s"), std::string::npos) << Warnings();
}

TEST_F(OptionsTest, AZeroByteInATextEnds) {
  EXPECT_FALSE(Apply(std::string("dirty_decay_ms:9\n\0:1", 20)));
  EXPECT_EQ(options_.dirty_decay_ms, 9);
}

TEST_F(OptionsTest, AWrongRowDoesNotStopTheOthers) {
  EXPECT_FALSE(Apply("nonsense,dirty_decay_ms:7,abort_conf:maybe,check_at_exit:false"));
  EXPECT_EQ(options_.dirty_decay_ms, 7);
  EXPECT_FALSE(options_.check_at_exit);
  EXPECT_FALSE(options_.abort_conf);
}

TEST_F(OptionsTest, LongNamesAndValuesAreCutInTheWarning) {
  EXPECT_FALSE(Apply(std::string(5000, 'x') + ":1"));
  EXPECT_FALSE(Apply("abort_conf:" + std::string(5000, 'y')));
  EXPECT_LT(Warnings().size(), 641u);
}

TEST_F(OptionsTest, TheDecayTimeIsTheSumOfItsParts) {
  EXPECT_EQ(options_.DecayMillis(), 1000);
  Apply("muzzy_decay_ms:500");
  EXPECT_EQ(options_.DecayMillis(), 1500);
  Apply("muzzy_decay_ms:-1");
  EXPECT_EQ(options_.DecayMillis(), 1000);
  Apply("dirty_decay_ms:-1,muzzy_decay_ms:500");
  EXPECT_LT(options_.DecayMillis(), 0);
}

TEST_F(OptionsTest, TheReportNamesValuesAndSources) {
  ApplyText(options_, "junk:free", Source::kFile);
  ApplyText(options_, "zero:true", Source::kGranaryVariable);
  ReportAll(options_);
  EXPECT_NE(Warnings().find("granary: junk:free (/etc/granary.conf)\n"), std::string::npos);
  EXPECT_NE(Warnings().find("granary: zero:true (GRANARY_CONF)\n"), std::string::npos);
  EXPECT_NE(Warnings().find("granary: dirty_decay_ms:1000 (default)\n"), std::string::npos);
}

}  // namespace
}  // namespace granary
