#include "config/jemalloc_options.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/fake_die.h"

namespace granary::jemalloc {
namespace {

class JemallocOptionsTest : public testing::Test {
 protected:
  void SetUp() override { Warnings().clear(); }
  bool Apply(const std::string& text) {
    return ApplyConf(options_, {text.data(), text.size()}, Source::kMallocVariable);
  }
  static size_t RowOf(const char* name) {
    size_t row = 0;
    while (row < kJemallocOptionCount && std::strcmp(kJemallocOptions[row].name, name) != 0) ++row;
    return row;
  }
  int64_t Value(const char* name) { return ValueOf(options_, RowOf(name)); }
  std::string Text(const char* name) { return TextOf(options_, RowOf(name)); }

  Options options_;
};

TEST_F(JemallocOptionsTest, EffectiveRowsSetGranarysOptions) {
  EXPECT_TRUE(
      Apply("dirty_decay_ms:5000,muzzy_decay_ms:5000,background_thread:false,tcache:false,"
            "zero:true,junk:alloc,xmalloc:true,zero_realloc:alloc,stats_print:true,thp:always"));
  EXPECT_EQ(options_.DecayMillis(), 10000);
  EXPECT_FALSE(options_.background_thread);
  EXPECT_FALSE(options_.cache);
  EXPECT_TRUE(options_.zero);
  EXPECT_EQ(options_.junk, 1);
  EXPECT_TRUE(options_.abort_on_oom);
  EXPECT_EQ(options_.zero_realloc, 1);
  EXPECT_TRUE(options_.stats_at_exit);
  EXPECT_EQ(options_.huge_pages, 1);
  EXPECT_EQ(Text("thp"), "always");
  EXPECT_EQ(Text("junk"), "alloc");
  EXPECT_EQ(Value("dirty_decay_ms"), 5000);
  EXPECT_EQ(Warnings(), "");
}

TEST_F(JemallocOptionsTest, RowsWithAnotherMeaningSetTheNearestOption) {
  EXPECT_EQ(Value("narenas"), 1);
  EXPECT_TRUE(Apply("narenas:8,retain:false,oversize_threshold:8388608,metadata_thp:auto"));
  EXPECT_TRUE(Apply("experimental_infallible_new:true"));
  EXPECT_EQ(options_.cache_count, 8);
  EXPECT_EQ(Value("narenas"), 8);
  EXPECT_FALSE(options_.retain);
  EXPECT_EQ(options_.oversize_threshold, 8388608);
  EXPECT_EQ(options_.metadata_thp, 1);
  EXPECT_EQ(Text("metadata_thp"), "auto");
  EXPECT_TRUE(options_.infallible_new);
  EXPECT_TRUE(Apply("narenas:default"));
  EXPECT_EQ(options_.cache_count, 0);
  EXPECT_EQ(Value("narenas"), 1);
  EXPECT_EQ(Warnings(), "");
}

TEST_F(JemallocOptionsTest, LogarithmsSetBytes) {
  EXPECT_TRUE(Apply("lg_tcache_max:16"));
  EXPECT_EQ(options_.cache_max, 65536);
  EXPECT_EQ(Value("tcache_max"), 65536);
  EXPECT_TRUE(Apply("tcache_max:8388608"));  // clipped, as jemalloc does
  EXPECT_EQ(options_.cache_max, 1048576);
}

TEST_F(JemallocOptionsTest, AcceptedRowsAreReported) {
  EXPECT_EQ(Text("percpu_arena"), "disabled");
  EXPECT_TRUE(Apply("percpu_arena:percpu,stats_print_opts:Jm"));
  EXPECT_EQ(Text("percpu_arena"), "percpu");
  EXPECT_EQ(Text("stats_print_opts"), "Jm");
  EXPECT_EQ(Text("dss"), "disabled");
  EXPECT_EQ(Text("prof_prefix"), "jeprof");
}

TEST_F(JemallocOptionsTest, RealConfigurationsRaiseNoWarning) {
  for (const char* text :
       {"percpu_arena:percpu,oversize_threshold:0,muzzy_decay_ms:5000,dirty_decay_ms:5000",
        "oversize_threshold:0,dirty_decay_ms:1000,muzzy_decay_ms:1000,background_thread:true",
        "xmalloc:true,lg_tcache_max:16,prof:true,prof_prefix:/tmp/x,lg_prof_sample:20",
        "narenas:2,lg_chunk:22,purge:decay,lg_dirty_mult:8,hpa_sec_bytes_after_flush:1"}) {
    EXPECT_TRUE(Apply(text)) << text;
    EXPECT_EQ(Warnings(), "") << text;
  }
}

TEST_F(JemallocOptionsTest, WrongRowsAreNamedAndChangeNothing) {
  EXPECT_FALSE(Apply("dirty_decay:5"));
  EXPECT_NE(Warnings().find("MALLOC_CONF: there is no option 'dirty_decay'; the nearest is "
                            "'dirty_decay_ms'"),
            std::string::npos)
      << Warnings();
  Warnings().clear();
  EXPECT_FALSE(Apply("percpu_arena:yes"));
  EXPECT_NE(Warnings().find("give disabled, percpu or phycpu"), std::string::npos) << Warnings();
  Warnings().clear();
  EXPECT_FALSE(Apply("narenas:-3,background_thread:maybe"));
  EXPECT_NE(Warnings().find("option narenas cannot be '-3'; give 0 or more"), std::string::npos);
  EXPECT_NE(Warnings().find("give true or false"), std::string::npos);
}

TEST_F(JemallocOptionsTest, ExperimentalRowsAreNoError) {
  EXPECT_TRUE(Apply("experimental_of_a_later_version:1"));
  EXPECT_NE(Warnings().find("there is no option"), std::string::npos);
}

TEST_F(JemallocOptionsTest, RowsAreConsistent) {
  for (const JemallocOption& row : kJemallocOptions) {
    EXPECT_LT(std::strlen(row.name), sizeof row.name - 1) << row.name;
    EXPECT_EQ(row.words[sizeof row.words - 1], 0) << row.name;
    EXPECT_EQ(row.words[sizeof row.words - 2], 0) << row.name;
    if (row.target == kNoTarget) continue;
    EXPECT_EQ(row.fate, Fate::kEffective) << row.name;
    // The words of a row with a target have the values of the target's words.
    const char* word = row.words;
    for (int64_t i = 0; row.type == OptionType::kChoice && *word != 0; ++i) {
      EXPECT_STREQ(word, WordOf(row.target, i)) << row.name;
      word += std::strlen(word) + 1;
    }
  }
}

}  // namespace
}  // namespace granary::jemalloc
