#include "config/jemalloc_options.h"

#include <bit>

#include "base/check.h"
#include "config/report.h"

namespace granary::jemalloc {
namespace {

constexpr uint8_t none = kNoTarget;
#define OPTION(name, type, default_value, lowest, highest, at_run_time, unit, meaning, when) \
  constexpr uint8_t name = static_cast<uint8_t>(OptionId::name);
#include "config/options.def"
#undef OPTION

}  // namespace

const JemallocOption kJemallocOptions[] = {
#define JEMALLOC_OPTION(name, fate, type, default_value, words, target) \
  {#name, Fate::k##fate, OptionType::k##type, target, words, default_value},
#include "config/jemalloc_options.def"
#undef JEMALLOC_OPTION
};

namespace {

// The accepted values as differences from the defaults. A value is zero until an option sets it.
int64_t accepted[kJemallocOptionCount];

struct TextRow {
  JemallocId row;
  char text[64];
};
TextRow texts[] = {{JemallocId::stats_print_opts, ""},
                   {JemallocId::stats_interval_opts, ""},
                   {JemallocId::prof_prefix, "jeprof"}};

char* TextAt(size_t row) {
  for (TextRow& text : texts) {
    if (static_cast<size_t>(text.row) == row) return text.text;
  }
  return nullptr;
}

const char* NextWord(const char* word) { return word + __builtin_strlen(word) + 1; }

bool FindWord(const char* word, Piece text, int64_t* value) {
  for (int64_t i = 0; *word != 0; ++i, word = NextWord(word)) {
    if (text.Is(word)) return *value = i, true;
  }
  return false;
}

bool Parse(const JemallocOption& row, Piece text, int64_t* value) {
  switch (row.type) {
    case OptionType::kBool:
      return ParseBoolean(text, value) && (*value == 0 || *value == 1);
    case OptionType::kChoice:
      return FindWord(row.words, text, value);
    case OptionType::kUnsigned:
    case OptionType::kSize:
    case OptionType::kU64:
      if (FindWord(row.words, text, value)) return true;
      return ParseNumber(text, value) && *value >= 0;
    case OptionType::kSsize:
      return ParseNumber(text, value) && *value >= -1;
    case OptionType::kLg:
    case OptionType::kLgSize:
      if (!ParseNumber(text, value) || *value < 0 || *value > 40) return false;
      *value = int64_t{1} << *value;
      return true;
    case OptionType::kText:
    case OptionType::kConfOnly:
      *value = 0;
      return true;
  }
  return false;
}

// Clips a number to the bounds of Granary's option, as jemalloc clips numbers to its own bounds.
void SetTarget(Options& o, size_t row, int64_t value, Source from) {
  const OptionInfo& info = kOptions[row];
  if (value < info.lowest) value = info.lowest;
  if (value > info.highest) value = info.highest;
  o.Set(row, value, from);
}

void ReportWrong(Source from, const JemallocOption& row, Piece value) {
  const bool alike = row.target != kNoTarget &&
                     Piece{row.name, __builtin_strlen(row.name)}.Is(kOptions[row.target].name);
  if (alike) return ReportValue(from, row.target, value);
  char buffer[320];
  Writer w(buffer, sizeof buffer);
  w.Text("granary: ").Text(NameOf(from)).Text(": option ").Text(row.name).Text(" cannot be '");
  Plain(w, value).Text("'; give ");
  if (row.type == OptionType::kBool) {
    w.Text("true or false");
  } else if (row.type == OptionType::kChoice) {
    w.Text(row.words);
    for (const char* word = NextWord(row.words); *word != 0; word = NextWord(word)) {
      w.Text(*NextWord(word) == 0 ? " or " : ", ").Text(word);
    }
  } else {
    w.Text(row.type == OptionType::kSsize ? "-1 or more" : "0 or more");
  }
  w.Text("; the option keeps its value\n");
  Warn(w.data(), w.size());
}

bool ApplyRow(Options& o, size_t at, Piece text, Source from) {
  const JemallocOption& row = kJemallocOptions[at];
  if (row.fate == Fate::kIgnored) return true;
  int64_t value;
  if (!Parse(row, text, &value)) return ReportWrong(from, row, text), false;
  if (char* copy = TextAt(at); copy != nullptr) {
    Writer w(copy, sizeof(TextRow::text) - 1);
    Plain(w, text);
    copy[w.size()] = 0;
  } else if (row.target != kNoTarget) {
    SetTarget(o, row.target, value, from);
  } else {
    accepted[at] = value - row.default_value;
  }
  return true;
}

const char* Nearest(Piece name) {
  const JemallocOption* best = kJemallocOptions;
  for (const JemallocOption& row : kJemallocOptions) {
    if (Distance(name, row.name) < Distance(name, best->name)) best = &row;
  }
  return best->name;
}

bool ApplyPair(Options& o, const Pair& pair, Source from) {
  for (size_t at = 0; at < kJemallocOptionCount; ++at) {
    if (pair.name.Is(kJemallocOptions[at].name)) return ApplyRow(o, at, pair.value, from);
  }
  ReportUnknown(from, pair.name, Nearest(pair.name));
  return pair.name.Begins("experimental_");  // names that differ between jemalloc's versions
}

}  // namespace

bool ApplyConf(Options& o, Piece text, Source from) noexcept {
  bool fine = true;
  Pairs pairs(text);
  for (Pair pair; pairs.Next(&pair);) fine &= ApplyPair(o, pair, from);
  return fine;
}

int64_t ValueOf(const Options& o, size_t row) noexcept {
  const JemallocOption& info = kJemallocOptions[row];
  if (info.target == kNoTarget) return info.default_value + accepted[row];
  const int64_t value = o.Get(info.target);
  if (info.type == OptionType::kLgSize) return std::bit_width(static_cast<uint64_t>(value)) - 1;
  const bool named = info.type != OptionType::kChoice && info.words[0] != 0;
  return named && value == 0 ? info.default_value : value;
}

const char* TextOf(const Options& o, size_t row) noexcept {
  if (const char* text = TextAt(row); text != nullptr) return text;
  const JemallocOption& info = kJemallocOptions[row];
  if (info.target != kNoTarget) return WordOf(info.target, o.Get(info.target));
  const char* word = info.words;
  for (int64_t i = ValueOf(o, row); i > 0; --i) word = NextWord(word);
  return word;
}

}  // namespace granary::jemalloc
