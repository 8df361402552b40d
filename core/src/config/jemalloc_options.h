// jemalloc's option names: what a text of them sets, and what mallctl("opt.<name>") reads. The rows
// are in jemalloc_options.def.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config/options.h"

namespace granary::jemalloc {

enum class Fate : uint8_t { kEffective, kAccepted, kIgnored };
enum class OptionType : uint8_t {
  kBool,
  kUnsigned,
  kSize,
  kSsize,
  kU64,
  kChoice,
  kText,
  kConfOnly,
  kLg,
  kLgSize
};

inline constexpr uint8_t kNoTarget = 255;

struct JemallocOption {
  char name[34];
  Fate fate;
  OptionType type;
  uint8_t target;  // a row of kOptions, or kNoTarget
  char words[28];  // one after the other, each with its terminating zero
  int64_t default_value;
};

enum class JemallocId : uint8_t {
#define JEMALLOC_OPTION(name, fate, type, default_value, words, target) name,
#include "config/jemalloc_options.def"
#undef JEMALLOC_OPTION
  kCount
};
inline constexpr size_t kJemallocOptionCount = static_cast<size_t>(JemallocId::kCount);
extern const JemallocOption kJemallocOptions[kJemallocOptionCount];

// Applies "name:value,..." to `o`. Reports a wrong row on stderr and returns false.
bool ApplyConf(Options& o, Piece text, Source from) noexcept;

// The value in force. For a row with a target, the value of the target option.
int64_t ValueOf(const Options& o, size_t row) noexcept;
// The text in force of a row of words or of a text row.
const char* TextOf(const Options& o, size_t row) noexcept;

}  // namespace granary::jemalloc
