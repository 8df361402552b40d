#include "config/tcmalloc_variables.h"

#include "config/environment.h"
#include "config/report.h"

namespace granary {
namespace {

enum class Kind : uint8_t { kRate, kSwitch, kTotal };

struct Variable {
  char name[40];
  char values[40];
  OptionId target;
  Kind kind;
};
constexpr Variable kVariables[] = {
#define TCMALLOC_VARIABLE(name, target, kind, values, effect) \
  {#name, values, OptionId::target, Kind::k##kind},
#include "config/tcmalloc_variables.def"
#undef TCMALLOC_VARIABLE
};

bool ReadNumber(const char* text, int64_t* value) {
  return ParseBoolean({text, __builtin_strlen(text)}, value) && *value >= 0;
}

// A decimal number such as "1.5", in thousandths.
bool ReadThousandths(const char* text, int64_t* value) {
  const size_t size = __builtin_strlen(text);
  size_t point = 0;
  while (point < size && text[point] != '.') ++point;
  if (!ParseNumber({text, point}, value) || *value < 0 || *value > 1000000) return false;
  *value *= 1000;
  int64_t unit = 100;
  for (size_t i = point + 1; i < size; ++i, unit /= 10) {
    if (text[i] < '0' || text[i] > '9') return false;
    *value += (text[i] - '0') * unit;
  }
  return true;
}

void Set(Options& o, OptionId option, int64_t value) {
  const size_t row = static_cast<size_t>(option);
  const OptionInfo& info = kOptions[row];
  o.Set(row, value < info.highest ? value : info.highest, Source::kTcmallocVariable);
}

bool Apply(Options& o, const Variable& variable, const char* text, unsigned (*cpus)()) {
  int64_t value;
  switch (variable.kind) {
    case Kind::kRate: {
      if (!ReadThousandths(text, &value)) return false;
      const int64_t normal = kOptions[static_cast<size_t>(variable.target)].default_value;
      Set(o, variable.target, value == 0 ? -1 : normal * 1000 / value);
      return true;
    }
    case Kind::kSwitch:
      if (!ReadNumber(text, &value)) return false;
      if (value != 0) Set(o, variable.target, 0);
      return true;
    case Kind::kTotal: {
      if (!ReadNumber(text, &value)) return false;
      const unsigned count = cpus();
      Set(o, variable.target, value / (count > 0 ? count : 1));
      return true;
    }
  }
  return false;
}

}  // namespace

bool ApplyTcmallocVariables(Options& o, unsigned (*cpus)()) noexcept {
  bool fine = true;
  for (const Variable& variable : kVariables) {
    const char* text = Environment(variable.name);
    if (text == nullptr || Apply(o, variable, text, cpus)) continue;
    ReportVariable(variable.name, text, variable.values);
    fine = false;
  }
  return fine;
}

}  // namespace granary
