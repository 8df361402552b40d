#include "config/options.h"

#include <string.h>

#include "base/check.h"
#include "base/writer.h"
#include "config/environment.h"

namespace granary {

constinit Options options;

const OptionInfo kOptions[] = {
#define OPTION(name, type, default_value, lowest, highest, at_run_time, meaning) \
  {#name, #type, default_value, lowest, highest, at_run_time, meaning},
#include "config/options.def"
#undef OPTION
};
const size_t kOptionCount = sizeof kOptions / sizeof kOptions[0];

namespace {

struct Text {
  const char* data;
  size_t size;
  bool Is(const char* other) const {
    return strlen(other) == size && memcmp(data, other, size) == 0;
  }
};

void Set(Options& o, size_t row, int64_t value) {
  size_t at = 0;
#define OPTION(name, type, default_value, lowest, highest, at_run_time, meaning) \
  if (at++ == row) o.name = static_cast<type>(value);
#include "config/options.def"
#undef OPTION
}

bool ParseNumber(Text text, int64_t* value) {
  size_t i = 0;
  const bool negative = text.size > 1 && text.data[0] == '-';
  if (negative) i = 1;
  if (i == text.size) return false;
  int64_t sum = 0;
  for (; i < text.size; ++i) {
    if (text.data[i] < '0' || text.data[i] > '9' || sum > INT64_MAX / 20) return false;
    sum = sum * 10 + (text.data[i] - '0');
  }
  *value = negative ? -sum : sum;
  return true;
}

bool ParseValue(Text text, int64_t* value) {
  if (text.Is("true")) return *value = 1, true;
  if (text.Is("false")) return *value = 0, true;
  return ParseNumber(text, value);
}

// Levenshtein's distance, of names of up to 40 letters.
size_t Distance(Text a, const char* b) {
  size_t row[41];
  const size_t m = strlen(b) > 40 ? 40 : strlen(b);
  for (size_t j = 0; j <= m; ++j) row[j] = j;
  for (size_t i = 0; i < a.size; ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 1; j <= m; ++j) {
      const size_t substitute = diagonal + (a.data[i] != b[j - 1]);
      diagonal = row[j];
      const size_t shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      row[j] = substitute < shorter ? substitute : shorter;
    }
  }
  return row[m];
}

const OptionInfo& Nearest(Text name) {
  size_t best = 0;
  for (size_t i = 1; i < kOptionCount; ++i) {
    if (Distance(name, kOptions[i].name) < Distance(name, kOptions[best].name)) best = i;
  }
  return kOptions[best];
}

Writer& Signed(Writer& w, int64_t n) {
  return n < 0 ? w.Text("-").Number(static_cast<uint64_t>(-n)) : w.Number(static_cast<uint64_t>(n));
}

Writer& Plain(Writer& w, Text text) {
  char copy[64];
  const size_t n = text.size < sizeof copy - 1 ? text.size : sizeof copy - 1;
  memcpy(copy, text.data, n);
  copy[n] = 0;
  return w.Text(copy);
}

void ReportUnknown(Text name) {
  char buffer[256];
  Writer w(buffer, sizeof buffer);
  w.Text("granary: there is no option '");
  Plain(w, name).Text("'; the nearest is '").Text(Nearest(name).name).Text("'; it is ignored\n");
  Warn(w.data(), w.size());
}

void ReportValue(const OptionInfo& info, Text value) {
  char buffer[256];
  Writer w(buffer, sizeof buffer);
  w.Text("granary: option ").Text(info.name).Text(" cannot be '");
  Plain(w, value).Text("'; give ");
  if (strcmp(info.type, "bool") == 0) {
    w.Text("true or false");
  } else {
    Signed(w, info.lowest).Text(" to ");
    Signed(w, info.highest);
  }
  w.Text("; it stays as it is\n");
  Warn(w.data(), w.size());
}

void ReportFixed(const OptionInfo& info) {
  char buffer[256];
  Writer w(buffer, sizeof buffer);
  w.Text("granary: option ").Text(info.name);
  w.Text(" cannot change while the program runs; set it in GRANARY_CONF before the start\n");
  Warn(w.data(), w.size());
}

bool ApplyRow(Options& o, Text name, Text value, bool running) {
  for (size_t i = 0; i < kOptionCount; ++i) {
    if (!name.Is(kOptions[i].name)) continue;
    if (running && !kOptions[i].at_run_time) {
      ReportFixed(kOptions[i]);
      return false;
    }
    int64_t number;
    if (!ParseValue(value, &number) || number < kOptions[i].lowest ||
        number > kOptions[i].highest) {
      ReportValue(kOptions[i], value);
      return false;
    }
    Set(o, i, number);
    return true;
  }
  ReportUnknown(name);
  return false;
}

Text Until(const char*& at, char stop) {
  const char* const begin = at;
  while (*at != 0 && *at != stop && *at != ',') ++at;
  return {begin, static_cast<size_t>(at - begin)};
}

}  // namespace

bool Options::Apply(const char* text, bool running) noexcept {
  bool fine = true;
  while (*text != 0) {
    const Text name = Until(text, ':');
    Text value{text, 0};
    if (*text == ':') value = Until(++text, ',');
    if (name.size > 0) fine &= ApplyRow(*this, name, value, running);
    if (*text == ',') ++text;
  }
  return fine;
}

void Options::Load() noexcept {
  const char* const text = Environment("GRANARY_CONF");
  if (text == nullptr || Apply(text) || !abort_conf) return;
  Die("GRANARY_CONF is wrong (see above) and abort_conf is set: correct it or unset abort_conf");
}

}  // namespace granary
