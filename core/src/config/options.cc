#include "config/options.h"

namespace granary {

constinit Options options;
constinit char backing_path[kMostPath + 1] = {};

const OptionInfo kOptions[] = {
#define OPTION(name, type, default_value, lowest, highest, at_run_time, unit, meaning, when) \
  {#name, #type, default_value, lowest, highest, at_run_time, Unit::k##unit},
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
#define OPTION(name, type, default_value, lowest, highest, at_run_time, unit, meaning, when) \
  case OptionId::name:                                                                       \
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
#define OPTION(name, type, default_value, lowest, highest, at_run_time, unit, meaning, when) \
  case OptionId::name:                                                                       \
    name = static_cast<type>(value);                                                         \
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

namespace {

bool ParsePath(Piece text, int64_t* value) {
  if (text.size > kMostPath || (text.size > 0 && text.data[0] != '/')) return false;
  __builtin_memset(backing_path, 0, sizeof backing_path);
  if (text.size > 0) __builtin_memcpy(backing_path, text.data, text.size);
  *value = static_cast<int64_t>(text.size);
  return true;
}

}  // namespace

bool ParseValue(size_t row, Piece text, int64_t* value) noexcept {
  const OptionInfo& info = kOptions[row];
  if (info.type[0] == 'P') return ParsePath(text, value);
  for (int64_t v = info.lowest; WordOf(row, v) != nullptr; ++v) {
    if (text.Is(WordOf(row, v))) return *value = v, true;
  }
  if (!ParseBoolean(text, value) && !ParseAmount(text, info.unit, value)) return false;
  return *value >= info.lowest && *value <= info.highest;
}

}  // namespace granary
