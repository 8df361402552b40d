#include "config/tcmalloc_variables.h"

#include "config/environment.h"
#include "config/report.h"

namespace granary {
namespace {

constexpr size_t kDecay = static_cast<size_t>(OptionId::dirty_decay_ms);
constexpr size_t kCacheBytes = static_cast<size_t>(OptionId::cache_bytes);

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

void Set(Options& o, size_t row, int64_t value) {
  const OptionInfo& info = kOptions[row];
  o.Set(row, value < info.highest ? value : info.highest, Source::kTcmallocVariable);
}

}  // namespace

bool ApplyTcmallocVariables(Options& o, unsigned (*cpus)()) noexcept {
  bool fine = true;
  int64_t value;
  if (const char* text = Environment("TCMALLOC_RELEASE_RATE"); text != nullptr) {
    if (ReadThousandths(text, &value)) {
      Set(o, kDecay, value == 0 ? -1 : kOptions[kDecay].default_value * 1000 / value);
    } else {
      ReportVariable("TCMALLOC_RELEASE_RATE", text, "a number such as 1.0, or 0 for never");
      fine = false;
    }
  }
  if (const char* text = Environment("TCMALLOC_AGGRESSIVE_DECOMMIT"); text != nullptr) {
    if (ReadNumber(text, &value)) {
      if (value != 0) Set(o, kDecay, 0);
    } else {
      ReportVariable("TCMALLOC_AGGRESSIVE_DECOMMIT", text, "true or false");
      fine = false;
    }
  }
  if (const char* text = Environment("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES"); text != nullptr) {
    if (ReadNumber(text, &value)) {
      const unsigned count = cpus();
      Set(o, kCacheBytes, value / (count > 0 ? count : 1));
    } else {
      ReportVariable("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", text, "a number of bytes");
      fine = false;
    }
  }
  return fine;
}

}  // namespace granary
