#include "compat/jemalloc/ctl_table.h"

#include "compat/jemalloc/figures.h"
#include "config/jemalloc_options.h"

namespace granary::jemalloc {
namespace {

// All names one after the other, each with its terminating zero.
constexpr char kNames[] =
#define CTL(name, type, access, handler, argument) name "\0"
#include "compat/jemalloc/ctl.def"
    ;

struct Sets {
#define CTL_SET(set, words) char set[sizeof words];
#include "compat/jemalloc/words_of_ctl.def"
};
constexpr Sets kSets = {
#define CTL_SET(set, words) words,
#include "compat/jemalloc/words_of_ctl.def"
};

constexpr size_t kRows = 0
#define CTL(name, type, access, handler, argument) +1
#include "compat/jemalloc/ctl.def"
    ;

struct Table {
  CtlRow rows[kRows];
};

consteval Table MakeTable() {
  Table table = {{
#define CTL(name, type, access, handler, argument) \
  {0, CtlType::k##type, Access::k##access, Handler::k##handler, static_cast<uint32_t>(argument)},
#include "compat/jemalloc/ctl.def"
  }};
  size_t at = 0;
  for (CtlRow& row : table.rows) {
    row.name = static_cast<uint16_t>(at);
    while (kNames[at] != 0) ++at;
    ++at;
  }
  return table;
}

constexpr Table kTable = MakeTable();

// One component of a name: up to a dot or the end.
Piece Component(const char* at) {
  size_t n = 0;
  while (at[n] != 0 && at[n] != '.') ++n;
  return {at, n};
}

bool Same(Piece a, Piece b) {
  return a.size == b.size && __builtin_memcmp(a.data, b.data, a.size) == 0;
}

// The number of a literal component in a mib. It does not resemble an index.
size_t NumberOf(Piece word) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < word.size; ++i) {
    hash = (hash ^ static_cast<unsigned char>(word.data[i])) * 0x100000001b3u;
  }
  return hash | uint64_t{1} << 63;
}

// The words of the set that a pattern's component names; nullptr for the set of options.
const char* WordsOf(Piece set) {
#define CTL_SET(set_name, words) \
  if (set.Is("<" #set_name ">")) return kSets.set_name;
#include "compat/jemalloc/words_of_ctl.def"
  return nullptr;
}

constexpr size_t kNone = ~size_t{0};

size_t PlaceOfOption(Piece name) {
  for (size_t i = 0; i < kJemallocOptionCount; ++i) {
    const OptionType type = kJemallocOptions[i].type;
    if (type == OptionType::kConfOnly || type == OptionType::kLg) continue;
    if (name.Is(kJemallocOptions[i].name)) return i;
  }
  return kNone;
}

size_t PlaceIn(Piece set, Piece name) {
  const char* word = WordsOf(set);
  if (word == nullptr) return PlaceOfOption(name);
  for (size_t i = 0; *word != 0; ++i, word += __builtin_strlen(word) + 1) {
    if (name.Is(word)) return i;
  }
  return kNone;
}

size_t CountOf(Piece set) {
  const char* word = WordsOf(set);
  if (word == nullptr) return kJemallocOptionCount;
  size_t count = 0;
  for (; *word != 0; word += __builtin_strlen(word) + 1) ++count;
  return count;
}

// The number of a name's component under the pattern's component; kNone if they differ.
size_t MatchName(Piece pattern, Piece name) {
  if (pattern.Is("#")) {
    int64_t index;
    const bool digits =
        name.size > 0 && name.size < 10 && name.data[0] >= '0' && name.data[0] <= '9';
    return digits && ParseNumber({name.data, name.size}, &index) ? static_cast<size_t>(index)
                                                                 : kNone;
  }
  if (pattern.data[0] == '<') return PlaceIn(pattern, name);
  return Same(pattern, name) ? NumberOf(pattern) : kNone;
}

bool MatchMib(Piece pattern, size_t number) {
  if (pattern.Is("#")) return true;
  if (pattern.data[0] == '<') return number < CountOf(pattern);
  return number == NumberOf(pattern);
}

// How many components of the name the row begins with, and whether both have the same number of
// components.
struct Match {
  size_t count = 0;
  bool name_ends = false;
  bool both_end = false;
};

Match MatchRow(const CtlRow& row, const char* name, size_t* numbers) {
  Match m;
  const char* pattern = kNames + row.name;
  while (m.count < kMostComponents) {
    const Piece a = Component(pattern), b = Component(name);
    const size_t number = MatchName(a, b);
    if (number == kNone) return m;
    numbers[m.count++] = number;
    pattern += a.size;
    name += b.size;
    m.name_ends = *name == 0;
    m.both_end = m.name_ends && *pattern == 0;
    if (*name == 0 || *pattern == 0) return m;
    ++pattern;
    ++name;
  }
  return m;
}

}  // namespace

Found FindName(const char* name) noexcept {
  Found found;
  for (const CtlRow& row : kTable.rows) {
    if (MatchRow(row, name, found.at).both_end) {
      found.row = &row;
      break;
    }
  }
  return found;
}

size_t MibOf(const char* name, size_t* mib, size_t most) noexcept {
  for (const CtlRow& row : kTable.rows) {
    size_t numbers[kMostComponents];
    const Match m = MatchRow(row, name, numbers);
    if (!m.name_ends) continue;
    const size_t count = m.count < most ? m.count : most;
    for (size_t i = 0; i < count; ++i) mib[i] = numbers[i];
    return count;
  }
  return 0;
}

Found FindMib(const size_t* mib, size_t length) noexcept {
  Found found;
  if (length > kMostComponents) return found;
  for (const CtlRow& row : kTable.rows) {
    const char* pattern = kNames + row.name;
    size_t i = 0;
    for (; i < length; ++i) {
      const Piece component = Component(pattern);
      if (!MatchMib(component, mib[i])) break;
      pattern += component.size;
      if (*pattern == 0) break;
      ++pattern;
    }
    if (i + 1 != length || *pattern != 0) continue;
    found.row = &row;
    for (size_t k = 0; k < length; ++k) found.at[k] = mib[k];
    break;
  }
  return found;
}

}  // namespace granary::jemalloc
