// The options, as fields; what each means stands in options.def. Read from the environment variable
// GRANARY_CONF ("name:value,name:value") before the first allocation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary {

struct OptionInfo {
  const char* name;
  const char* type;
  int64_t default_value;
  int64_t lowest;
  int64_t highest;
  bool at_run_time;
  const char* meaning;
};

struct Options {
#define OPTION(name, type, default_value, lowest, highest, at_run_time, meaning) \
  type name = default_value;
#include "config/options.def"
#undef OPTION

  // Reads the environment once; a wrong row is named on stderr and left at its default.
  void Load() noexcept;
  // Applies "name:value,..."; false if a row was wrong. While the program runs, rows of options
  // that cannot change any more are wrong.
  bool Apply(const char* text, bool running = false) noexcept;
};

extern Options options __attribute__((visibility("hidden")));
extern const OptionInfo kOptions[];
extern const size_t kOptionCount;

}  // namespace granary
