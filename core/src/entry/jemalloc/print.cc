#include "entry/jemalloc/print.h"

#include "base/writer.h"
#include "config/jemalloc_options.h"
#include "config/report.h"
#include "entry/heap.h"
#include "entry/jemalloc/arenas.h"
#include "entry/jemalloc/ctl.h"
#include "entry/jemalloc/figures.h"
#include "entry/jemalloc/output.h"

namespace granary::jemalloc {
namespace {

struct Parts {
  bool json = false, general = true, merged = true, arenas = true, bins = true, large = true,
       mutexes = true, extents = true;

  explicit Parts(const char* letters) {
    for (; letters != nullptr && *letters != 0; ++letters) {
      switch (*letters) {
        case 'J':
          json = true;
          break;
        case 'g':
          general = false;
          break;
        case 'm':
          merged = false;
          break;
        case 'a':
          arenas = false;
          break;
        case 'b':
          bins = false;
          break;
        case 'l':
          large = false;
          break;
        case 'x':
          mutexes = false;
          break;
        case 'e':
          extents = false;
          break;
        default:
          break;
      }
    }
  }
};

// ---- JSON ----

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
        j.Truth(row.name, ValueOf(options, i) != 0);
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
  for (const auto& row : rows) j.Truth(row.name, row.value);
  j.Text("malloc_conf", "");
  j.Close();
}

void JsonShapes(Json& j) {
  j.Open("arenas");
  j.Number("narenas", ArenaCount());
  j.Signed("dirty_decay_ms", options.dirty_decay_ms);
  j.Signed("muzzy_decay_ms", options.muzzy_decay_ms);
  j.Number("quantum", kQuantum);
  j.Number("page", heap.pages().OsPage());
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

void JsonKind(Json& j, const char* name, const KindFigures& figures) {
  j.Open(name);
#define KIND(figure, type) j.Number(#figure, figures.figure);
#include "entry/jemalloc/figures.def"
  j.Close();
}

void JsonArena(Json& j, const char* name, const ArenaFigures& a, const Parts& parts) {
  j.Open(name);
  j.Text("dss", "disabled");
#define ARENA(figure, type) j.Signed(#figure, static_cast<int64_t>(a.figure));
#include "entry/jemalloc/figures.def"
  j.Number("uptime_ns", a.uptime);
  JsonKind(j, "small", a.small);
  JsonKind(j, "large", a.large);
  if (parts.bins) {
    j.OpenList("bins");
    for (const BinFigures& bin : a.bins) {
      j.Open(nullptr);
#define BIN(figure, type) j.Number(#figure, bin.figure);
#include "entry/jemalloc/figures.def"
      j.Close();
    }
    j.CloseList();
  }
  if (parts.large) {
    j.OpenList("lextents");
    for (const ExtentFigures& extent : a.lextents) {
      j.Open(nullptr);
#define LEXTENT(figure, type) j.Number(#figure, extent.figure);
#include "entry/jemalloc/figures.def"
      j.Close();
    }
    j.CloseList();
  }
  j.Close();
}

// Calls visit(name, figures) for the arenas that were asked for.
template <class Visit>
void ForEachArena(const Parts& parts, Visit&& visit) {
  if (parts.merged) visit("merged", *FiguresOf(kAllArenas));
  for (size_t i = 0; parts.arenas && i < ArenaCount(); ++i) {
    const ArenaFigures* const figures = FiguresOf(i);
    if (figures == nullptr) continue;
    char name[24];
    Writer w(name, sizeof name - 1);
    name[w.Number(i).size()] = 0;
    visit(name, *figures);
  }
}

void PrintJson(Output& out, const Parts& parts) {
  Json j(out);
  j.Open(nullptr);
  j.Open("jemalloc");
  if (parts.general) {
    j.Text("version", kVersion);
    JsonConfig(j);
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
  j.Number("num_threads", heap.upkeep().HelperRuns());
  j.Number("num_runs", heap.upkeep().windows());
  j.Number("run_interval", 0);
  j.Close();
  j.Close();
  j.Open("stats.arenas");
  ForEachArena(parts,
               [&](const char* name, const ArenaFigures& a) { JsonArena(j, name, a, parts); });
  j.Close();
  j.Close();
  j.Close();
  out.Text("\n");
}

// ---- text ----

void TextOptions(Output& out) {
  out.Text("Run-time option settings:\n");
  for (size_t i = 0; i < kJemallocOptionCount; ++i) {
    const JemallocOption& row = kJemallocOptions[i];
    if (row.type == OptionType::kConfOnly || row.type == OptionType::kLg) continue;
    out.Text("  opt.").Text(row.name).Text(": ");
    if (row.type == OptionType::kChoice || row.type == OptionType::kText) {
      out.Text("\"").Text(TextOf(options, i)).Text("\"\n");
    } else if (row.type == OptionType::kBool) {
      out.Text(ValueOf(options, i) != 0 ? "true\n" : "false\n");
    } else {
      out.Signed(ValueOf(options, i)).Text("\n");
    }
  }
}

void TextKind(Output& out, const char* name, const KindFigures& k) {
  out.Text(name).Number(k.allocated).Text("  nmalloc ").Number(k.nmalloc);
  out.Text("  ndalloc ").Number(k.ndalloc).Text("\n");
}

void TextBins(Output& out, const ArenaFigures& a) {
  out.Text(
      "bins:           size ind    allocated      nmalloc      ndalloc      curregs     curslabs"
      "   nonfull_slabs\n");
  for (size_t i = 0; i < kBins; ++i) {
    const BinFigures& bin = a.bins[i];
    if (bin.nmalloc == 0) continue;
    out.Column(BinSize(i), 20).Column(i, 4).Column(bin.curregs * BinSize(i), 13);
    out.Column(bin.nmalloc, 13).Column(bin.ndalloc, 13).Column(bin.curregs, 13);
    out.Column(bin.curslabs, 13).Column(bin.nonfull_slabs, 16).Text("\n");
  }
}

void TextExtents(Output& out, const ArenaFigures& a) {
  out.Text("large:          size ind      nmalloc      ndalloc  curlextents\n");
  for (size_t i = 0; i < kExtents; ++i) {
    const ExtentFigures& extent = a.lextents[i];
    if (extent.nmalloc == 0) continue;
    out.Column(ExtentSize(i), 20).Column(kBins + i, 4).Column(extent.nmalloc, 13);
    out.Column(extent.ndalloc, 13).Column(extent.curlextents, 13).Text("\n");
  }
}

void TextArena(Output& out, const ArenaFigures& a, const Parts& parts) {
  const size_t page = heap.pages().OsPage();
  out.Text("assigned threads: ").Number(a.nthreads).Text("\nuptime: ").Number(a.uptime);
  out.Text("\ndss allocation precedence: \"disabled\"\n");
  out.Text("decaying:  time       npages       sweeps     madvises       purged\n   dirty:");
  out.Text("  ").Signed(static_cast<int64_t>(a.dirty_decay_ms)).Column(a.pdirty, 13);
  out.Column(a.dirty_npurge, 13).Column(a.dirty_nmadvise, 13).Column(a.dirty_purged, 13).Text("\n");
  TextKind(out, "small: ", a.small);
  TextKind(out, "large: ", a.large);
  out.Text("active: ").Number(a.pactive * page).Text("\nmapped: ").Number(a.mapped);
  out.Text("\nretained: ").Number(a.retained).Text("\nbase: ").Number(a.base);
  out.Text("\ntcache_bytes: ").Number(a.tcache_bytes);
  out.Text("\nresident: ").Number(a.resident).Text("\n");
  if (parts.bins) TextBins(out, a);
  if (parts.large) TextExtents(out, a);
}

void PrintText(Output& out, const Parts& parts) {
  out.Text("___ Begin jemalloc statistics ___\n");
  if (parts.general) {
    out.Text("Version: \"").Text(kVersion).Text("\"\n");
    TextOptions(out);
    out.Text("Arenas: ").Number(ArenaCount()).Text("\nQuantum size: 16\nPage size: ");
    out.Number(heap.pages().OsPage()).Text("\n");
  }
  const TotalFigures t = Totals();
  out.Text("Allocated: ").Number(t.allocated).Text(", active: ").Number(t.active);
  out.Text(", metadata: ").Number(t.metadata).Text(" (n_thp 0), resident: ").Number(t.resident);
  out.Text(", mapped: ").Number(t.mapped).Text(", retained: ").Number(t.retained).Text("\n");
  out.Text("Background threads: ").Number(heap.upkeep().HelperRuns());
  out.Text(", num_runs: ").Number(heap.upkeep().windows()).Text(", run_interval: 0 ns\n");
  ForEachArena(parts, [&](const char* name, const ArenaFigures& a) {
    if (name[0] == 'm') {
      out.Text("Merged arenas stats:\n");
    } else {
      out.Text("arenas[").Text(name).Text("]:\n");
    }
    TextArena(out, a, parts);
  });
  out.Text("--- End jemalloc statistics ---\n");
}

}  // namespace

void PrintStats(PrintTo to, void* argument, const char* letters) noexcept {
  Refresh();
  const Parts parts(letters);
  Output out(to, argument);
  if (parts.json) {
    PrintJson(out, parts);
  } else {
    PrintText(out, parts);
  }
}

}  // namespace granary::jemalloc
