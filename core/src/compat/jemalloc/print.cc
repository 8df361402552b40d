#include "compat/jemalloc/print.h"

#include "compat/jemalloc/ctl.h"
#include "compat/jemalloc/print_parts.h"
#include "config/jemalloc_options.h"
#include "config/report.h"
#include "layers/layers.h"
#include "upkeep/upkeep.h"

namespace granary::jemalloc {
namespace {

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
  const size_t page = layers.pages().OsPage();
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
    out.Number(layers.pages().OsPage()).Text("\n");
  }
  const TotalFigures t = Totals();
  out.Text("Allocated: ").Number(t.allocated).Text(", active: ").Number(t.active);
  out.Text(", metadata: ").Number(t.metadata).Text(" (n_thp 0), resident: ").Number(t.resident);
  out.Text(", mapped: ").Number(t.mapped).Text(", retained: ").Number(t.retained).Text("\n");
  out.Text("Background threads: ").Number(upkeep.BackgroundRuns());
  out.Text(", num_runs: ").Number(upkeep.intervals()).Text(", run_interval: 0 ns\n");
  ForEachArena(parts, [&](const char* key, const char* name, const ArenaFigures& a) {
    if (name == nullptr) {
      out.Text("Merged arenas stats:\n");
    } else {
      out.Text("arenas[").Text(key).Text("]:\nname: ").Text(name).Text("\n");
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
