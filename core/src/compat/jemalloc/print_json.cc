#include "compat/jemalloc/ctl.h"
#include "compat/jemalloc/print_parts.h"
#include "config/jemalloc_options.h"
#include "config/report.h"
#include "layers/layers.h"
#include "limits/system_files.h"
#include "upkeep/upkeep.h"

namespace granary::jemalloc {
namespace {

// Words one after the other, each with its terminating zero, and one more zero after the last.
#define CTL_SET(set, words) constexpr char k_##set[] = words;
#include "compat/jemalloc/words_of_ctl.def"
constexpr const char* kLocks = k_mutex;
constexpr const char* kArenaLocks = k_arena_mutex;
constexpr const char* kCounters = k_counter;
constexpr const char* kExtentFigures = k_extent_figure;

template <class Visit>
void ForEachWord(const char* words, Visit&& visit) {
  for (; *words != 0; words += __builtin_strlen(words) + 1) visit(words);
}

void JsonOptions(Json& j) {
  j.Open("opt");
  for (size_t i = 0; i < kJemallocOptionCount; ++i) {
    const JemallocOption& row = kJemallocOptions[i];
    switch (row.type) {
      case OptionType::kConfOnly:
      case OptionType::kLg:
        break;
      case OptionType::kChoice:
      case OptionType::kText:
        j.Text(row.name, TextOf(options, i));
        break;
      case OptionType::kBool:
        j.Boolean(row.name, ValueOf(options, i) != 0);
        break;
      default:
        j.Signed(row.name, ValueOf(options, i));
    }
  }
  j.Close();
}

void JsonConfig(Json& j) {
  j.Open("config");
  const struct {
    char name[20];
    bool value;
  } rows[] = {{"cache_oblivious", false},
              {"debug", false},
              {"fill", true},
              {"lazy_lock", false},
              {"opt_safety_checks", true},
              {"prof", true},
              {"prof_libgcc", false},
              {"prof_libunwind", false},
              {"stats", true},
              {"utrace", false},
              {"xmalloc", true}};
  for (const auto& row : rows) j.Boolean(row.name, row.value);
  j.Text("malloc_conf", "");
  j.Close();
}

void JsonShapes(Json& j) {
  j.Open("arenas");
  j.Number("narenas", ArenaCount());
  j.Signed("dirty_decay_ms", options.dirty_decay_ms);
  j.Signed("muzzy_decay_ms", options.muzzy_decay_ms);
  j.Number("quantum", kQuantum);
  j.Number("page", layers.pages().OsPage());
  j.Number("hugepage", kTrackerBytes);
  j.Number("tcache_max", options.Caches() ? static_cast<uint64_t>(options.cache_max) : 0);
  j.Number("nbins", kBins);
  j.Number("nhbins", kBins + kMediumExtents);
  j.OpenList("bin");
  for (size_t i = 0; i < kBins; ++i) {
    j.Open(nullptr);
    j.Number("size", BinSize(i));
    j.Number("nregs", kSlabShape[i + 1].objects);
    j.Number("slab_size", kSlabShape[i + 1].bytes);
    j.Number("nshards", 1);
    j.Close();
  }
  j.CloseList();
  j.Number("nlextents", kExtents);
  j.OpenList("lextent");
  for (size_t i = 0; i < kExtents; ++i) {
    j.Open(nullptr);
    j.Number("size", ExtentSize(i));
    j.Close();
  }
  j.CloseList();
  j.Close();
}

// The figures of a lock of jemalloc, all zero: Granary has no such locks.
void JsonLock(Json& j, const char* name) {
  j.Open(name);
  ForEachWord(kCounters, [&](const char* counter) { j.Number(counter, 0); });
  j.Number("max_num_thds", 0);
  j.Close();
}

void JsonLocks(Json& j, const char* names) {
  j.Open("mutexes");
  ForEachWord(names, [&](const char* name) { JsonLock(j, name); });
  j.Close();
}

void JsonPageExtents(Json& j) {
  j.OpenList("extents");
  for (size_t i = 0; i < kExtents; ++i) {
    j.Open(nullptr);
    ForEachWord(kExtentFigures, [&](const char* figure) { j.Number(figure, 0); });
    j.Close();
  }
  j.CloseList();
}

// The kernel's setting for huge pages: the word in brackets.
void JsonSystem(Json& j) {
  FileText file;
  char mode[16] = "not supported";
  if (file.Read("/sys/kernel/mm/transparent_hugepage/enabled")) {
    const char* from = file.text();
    while (*from != 0 && *from != '[') ++from;
    size_t n = 0;
    for (; *from == '[' && n + 1 < sizeof mode && from[n + 1] != ']' && from[n + 1] != 0; ++n)
      mode[n] = from[n + 1];
    if (n > 0) mode[n] = 0;
  }
  j.Open("system");
  j.Text("thp_mode", mode);
  j.Close();
}

void JsonKind(Json& j, const char* name, const KindFigures& figures) {
  j.Open(name);
#define KIND(figure, type) j.Number(#figure, figures.figure);
#include "compat/jemalloc/figures.def"
  j.Close();
}

void JsonArena(Json& j, const char* key, const char* name, const ArenaFigures& a,
               const Parts& parts) {
  j.Open(key);
  if (name != nullptr) j.Text("name", name);
  j.Text("dss", "disabled");
#define ARENA(figure, type) j.Signed(#figure, static_cast<int64_t>(a.figure));
#include "compat/jemalloc/figures.def"
  j.Number("uptime_ns", a.uptime);
  JsonKind(j, "small", a.small);
  JsonKind(j, "large", a.large);
  if (parts.mutexes) JsonLocks(j, kArenaLocks);
  if (parts.bins) {
    j.OpenList("bins");
    for (const BinFigures& bin : a.bins) {
      j.Open(nullptr);
#define BIN(figure, type) j.Number(#figure, bin.figure);
#include "compat/jemalloc/figures.def"
      if (parts.mutexes) JsonLock(j, "mutex");
      j.Close();
    }
    j.CloseList();
  }
  if (parts.large) {
    j.OpenList("lextents");
    for (const ExtentFigures& extent : a.lextents) {
      j.Open(nullptr);
#define LEXTENT(figure, type) j.Number(#figure, extent.figure);
#include "compat/jemalloc/figures.def"
      j.Close();
    }
    j.CloseList();
  }
  if (parts.extents) JsonPageExtents(j);
  j.Close();
}

}  // namespace

void PrintJson(Output& out, const Parts& parts) noexcept {
  Json j(out);
  j.Open(nullptr);
  j.Open("jemalloc");
  if (parts.general) {
    j.Text("version", kVersion);
    JsonConfig(j);
    JsonSystem(j);
    JsonOptions(j);
    JsonShapes(j);
  }
  j.Open("stats");
  const TotalFigures t = Totals();
  const struct {
    char name[18];
    uint64_t value;
  } totals[] = {{"allocated", t.allocated},
                {"active", t.active},
                {"metadata", t.metadata},
                {"metadata_edata", t.metadata_edata},
                {"metadata_rtree", t.metadata_rtree},
                {"metadata_thp", t.metadata_thp},
                {"resident", t.resident},
                {"mapped", t.mapped},
                {"retained", t.retained},
                {"pinned", t.pinned},
                {"zero_reallocs", t.zero_reallocs}};
  for (const auto& row : totals) j.Number(row.name, row.value);
  j.Open("background_thread");
  j.Number("num_threads", upkeep.BackgroundRuns());
  j.Number("num_runs", upkeep.intervals());
  j.Number("run_interval", 0);
  j.Close();
  if (parts.mutexes) JsonLocks(j, kLocks);
  j.Close();
  j.Open("stats.arenas");
  ForEachArena(parts, [&](const char* key, const char* name, const ArenaFigures& a) {
    JsonArena(j, key, name, a, parts);
  });
  j.Close();
  j.Close();
  j.Close();
  out.Text("\n");
}

}  // namespace granary::jemalloc
