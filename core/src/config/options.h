// The options as fields of a structure; options.def explains each. heap/settings.cc reads them from
// several sources (sources.def) before the first allocation. jemalloc_options.def lists jemalloc's
// names.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config/text.h"

namespace granary {

// The value of an option that is a path: the length of its text.
using PathSize = int64_t;

enum class Source : uint8_t {
#define SOURCE(id, name) id,
#include "config/sources.def"
#undef SOURCE
};

const char* NameOf(Source source) noexcept;

// The structure holds characters, not pointers: relocating a table of pointers would cost every
// process a page.
struct OptionInfo {
  char name[24];
  char type[12];
  int64_t default_value;
  int64_t lowest;
  int64_t highest;
  bool at_run_time;
  Unit unit;
};

enum class OptionId : uint8_t {
#define OPTION(name, type, default_value, lowest, highest, at_run_time, unit, meaning, when) name,
#include "config/options.def"
#undef OPTION
  kCount
};
inline constexpr size_t kOptionCount = static_cast<size_t>(OptionId::kCount);
extern const OptionInfo kOptions[kOptionCount];

struct Options {
#define OPTION(name, type, default_value, lowest, highest, at_run_time, unit, meaning, when) \
  type name = default_value;
#include "config/options.def"
#undef OPTION
  Source source[kOptionCount] = {};  // the source of each row's value

  int64_t Get(size_t row) const noexcept;
  // `value` is within the row's bounds.
  void Set(size_t row, int64_t value, Source from) noexcept;

  // The decay time in milliseconds: how long a free page stays dirty. Negative for never purged.
  int64_t DecayMillis() const {
    return dirty_decay_ms < 0 || muzzy_decay_ms < 0 ? dirty_decay_ms
                                                    : dirty_decay_ms + muzzy_decay_ms;
  }
  bool Fills() const { return !hardened && (zero || junk != 0); }
  bool FillsFreed() const { return !hardened && (junk & 2) != 0; }
  bool Caches() const { return cache && !Fills(); }
};

extern Options options __attribute__((visibility("hidden")));

// The text of option backing: an absolute path, or empty.
inline constexpr size_t kMostPath = 180;
extern char backing_path[kMostPath + 1] __attribute__((visibility("hidden")));

// Parses a row's value: a word, a boolean, a path or a number within the bounds.
bool ParseValue(size_t row, Piece text, int64_t* value) noexcept;
// The word for a value of the row, or nullptr if the value has no word.
const char* WordOf(size_t row, int64_t value) noexcept;

}  // namespace granary
