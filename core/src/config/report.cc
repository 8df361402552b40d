#include "config/report.h"

#include "base/check.h"

namespace granary {

Writer& Signed(Writer& w, int64_t n) noexcept {
  if (n < 0) return w.Text("-").Number(~static_cast<uint64_t>(n) + 1);
  return w.Number(static_cast<uint64_t>(n));
}

Writer& Plain(Writer& w, Piece text) noexcept {
  char copy[64];
  const size_t n = text.size < sizeof copy - 1 ? text.size : sizeof copy - 1;
  if (n > 0) __builtin_memcpy(copy, text.data, n);
  copy[n] = 0;
  return w.Text(copy);
}

Writer& Value(Writer& w, size_t row, int64_t value) noexcept {
  if (const char* word = WordOf(row, value); word != nullptr) return w.Text(word);
  if (kOptions[row].type[0] == 'b') return w.Text(value != 0 ? "true" : "false");
  if (kOptions[row].type[0] == 'P') return w.Text(value != 0 ? backing_path : "none");
  return Signed(w, value);
}

Writer& Range(Writer& w, size_t row) noexcept {
  const OptionInfo& info = kOptions[row];
  if (info.type[0] == 'b') return w.Text("true or false");
  if (info.type[0] == 'P') return w.Text("an absolute path of at most 180 letters");
  if (WordOf(row, info.lowest) == nullptr) {
    Signed(Signed(w, info.lowest).Text(" to "), info.highest);
    return w.Text(info.unit == Unit::kBytes          ? ", or a size such as 50MiB"
                  : info.unit == Unit::kMilliseconds ? ", or a duration such as 5s"
                                                     : "");
  }
  for (int64_t value = info.lowest; value <= info.highest; ++value) {
    w.Text(value == info.lowest ? "" : value == info.highest ? " or " : ", ");
    w.Text(WordOf(row, value));
  }
  return w;
}

void ReportUnknown(Source from, Piece name, const char* nearest) noexcept {
  char buffer[320];
  Writer w(buffer, sizeof buffer);
  w.Text("granary: ").Text(NameOf(from)).Text(": there is no option '");
  Plain(w, name).Text("'; the nearest is '").Text(nearest).Text("'; the row is ignored\n");
  Warn(w.data(), w.size());
}

void ReportValue(Source from, size_t row, Piece value) noexcept {
  char buffer[320];
  Writer w(buffer, sizeof buffer);
  w.Text("granary: ").Text(NameOf(from)).Text(": option ").Text(kOptions[row].name);
  w.Text(" cannot be '");
  Plain(w, value).Text("'; give ");
  Range(w, row).Text("; the option keeps its value\n");
  Warn(w.data(), w.size());
}

void ReportVariable(const char* name, const char* value, const char* give) noexcept {
  char buffer[320];
  Writer w(buffer, sizeof buffer);
  w.Text("granary: the variable ").Text(name).Text(" cannot be '");
  Plain(w, {value, __builtin_strlen(value)}).Text("'; give ").Text(give).Text("\n");
  Warn(w.data(), w.size());
}

void ReportFixed(size_t row) noexcept {
  char buffer[256];
  Writer w(buffer, sizeof buffer);
  w.Text("granary: option ").Text(kOptions[row].name);
  w.Text(
      " cannot change while the program runs; set it in GRANARY_CONF before the program starts\n");
  Warn(w.data(), w.size());
}

void ReportAll(const Options& options) noexcept {
  for (size_t row = 0; row < kOptionCount; ++row) {
    char buffer[160];
    Writer w(buffer, sizeof buffer);
    w.Text("granary: ").Text(kOptions[row].name).Text(":");
    Value(w, row, options.Get(row)).Text(" (").Text(NameOf(options.source[row])).Text(")\n");
    Warn(w.data(), w.size());
  }
}

}  // namespace granary
