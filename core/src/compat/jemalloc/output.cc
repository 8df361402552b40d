#include "compat/jemalloc/output.h"

#include "base/writer.h"

namespace granary::jemalloc {

void Output::Flush() noexcept {
  if (size_ == 0) return;
  buffer_[size_] = 0;
  size_ = 0;
  to_(argument_, buffer_);
}

void Output::Put(char c) noexcept {
  if (size_ + 1 == sizeof buffer_) Flush();
  buffer_[size_++] = c;
}

Output& Output::Text(const char* text) noexcept {
  while (*text != 0) Put(*text++);
  return *this;
}

Output& Output::Number(uint64_t n) noexcept { return Column(n, 0); }

Output& Output::Signed(int64_t n) noexcept {
  if (n >= 0) return Number(static_cast<uint64_t>(n));
  return Text("-").Number(~static_cast<uint64_t>(n) + 1);
}

Output& Output::Column(uint64_t n, size_t width) noexcept {
  char digits[24];
  Writer w(digits, sizeof digits - 1);
  w.Number(n);
  digits[w.size()] = 0;
  for (size_t i = w.size(); i < width; ++i) Put(' ');
  return Text(digits);
}

void Json::Begin(const char* name) noexcept {
  if (!first_) out_.Text(",");
  first_ = false;
  if (name != nullptr) out_.Text("\"").Text(name).Text("\":");
}

void Json::Text(const char* name, const char* text) noexcept {
  Begin(name);
  out_.Text("\"");
  for (; *text != 0; ++text) {
    if (static_cast<unsigned char>(*text) < ' ') continue;
    const char letter[] = {*text, 0};
    out_.Text(*text == '"' || *text == '\\' ? "\\" : "").Text(letter);
  }
  out_.Text("\"");
}

}  // namespace granary::jemalloc
