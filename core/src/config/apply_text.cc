#include "config/apply_text.h"

#include "config/report.h"

namespace granary {
namespace {

const char* Nearest(Piece name) {
  size_t best = 0;
  for (size_t i = 1; i < kOptionCount; ++i) {
    if (Distance(name, kOptions[i].name) < Distance(name, kOptions[best].name)) best = i;
  }
  return kOptions[best].name;
}

bool ApplyPair(Options& o, const Pair& pair, Source from) {
  for (size_t row = 0; row < kOptionCount; ++row) {
    if (!pair.name.Is(kOptions[row].name)) continue;
    if (from == Source::kRunning && !kOptions[row].at_run_time) return ReportFixed(row), false;
    int64_t value;
    if (!ParseValue(row, pair.value, &value)) return ReportValue(from, row, pair.value), false;
    o.Set(row, value, from);
    return true;
  }
  ReportUnknown(from, pair.name, Nearest(pair.name));
  return false;
}

}  // namespace

bool ApplyText(Options& o, Piece text, Source from) noexcept {
  bool fine = true;
  Pairs pairs(text);
  for (Pair pair; pairs.Next(&pair);) fine &= ApplyPair(o, pair, from);
  return fine;
}

}  // namespace granary
