#include "config/options.h"

#include "config/report.h"

namespace granary {

constinit Options options;

const OptionInfo kOptions[] = {
#define OPTION(name, type, default_value, lowest, highest, at_run_time, meaning) \
  {#name, #type, default_value, lowest, highest, at_run_time},
#include "config/options.def"
#undef OPTION
};

const char* NameOf(Source source) noexcept {
  switch (source) {
#define SOURCE(id, name) \
  case Source::id:       \
    return name;
#include "config/sources.def"
#undef SOURCE
  }
  return "";
}

int64_t Options::Get(size_t row) const noexcept {
  switch (static_cast<OptionId>(row)) {
#define OPTION(name, type, default_value, lowest, highest, at_run_time, meaning) \
  case OptionId::name:                                                           \
    return name;
#include "config/options.def"
#undef OPTION
    case OptionId::kCount:
      break;
  }
  return 0;
}

void Options::Set(size_t row, int64_t value, Source from) noexcept {
  switch (static_cast<OptionId>(row)) {
#define OPTION(name, type, default_value, lowest, highest, at_run_time, meaning) \
  case OptionId::name:                                                           \
    name = static_cast<type>(value);                                             \
    break;
#include "config/options.def"
#undef OPTION
    case OptionId::kCount:
      return;
  }
  source[row] = from;
}

const char* WordOf(size_t row, int64_t value) noexcept {
#define WORD(option, word, number) \
  if (row == static_cast<size_t>(OptionId::option) && value == number) return #word;
#include "config/words.def"
#undef WORD
  return nullptr;
}

bool ParseValue(size_t row, Piece text, int64_t* value) noexcept {
  const OptionInfo& info = kOptions[row];
  for (int64_t v = info.lowest; WordOf(row, v) != nullptr; ++v) {
    if (text.Is(WordOf(row, v))) return *value = v, true;
  }
  if (!ParseTruth(text, value)) return false;
  return *value >= info.lowest && *value <= info.highest;
}

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

bool Options::Apply(Piece text, Source from) noexcept {
  bool fine = true;
  Pairs pairs(text);
  for (Pair pair; pairs.Next(&pair);) fine &= ApplyPair(*this, pair, from);
  return fine;
}

}  // namespace granary
