#include "config/text.h"

namespace granary {
namespace {

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

}  // namespace

bool ParseNumber(Piece text, int64_t* value) noexcept {
  size_t i = 0;
  const bool negative = text.size > 1 && text.data[0] == '-';
  if (negative) i = 1;
  if (i == text.size) return false;
  int base = 10;
  if (text.data[i] == '0' && text.size > i + 1) {
    const bool hex = text.size > i + 2 && (text.data[i + 1] | 0x20) == 'x';
    base = hex ? 16 : 8;
    i += hex ? 2 : 1;
  }
  int64_t sum = 0;
  for (; i < text.size; ++i) {
    const int digit = DigitOf(text.data[i]);
    if (digit >= base || sum > INT64_MAX / 32) return false;
    sum = sum * base + digit;
  }
  *value = negative ? -sum : sum;
  return true;
}

bool ParseBoolean(Piece text, int64_t* value) noexcept {
  if (text.Is("true")) return *value = 1, true;
  if (text.Is("false")) return *value = 0, true;
  return ParseNumber(text, value);
}

// The Levenshtein distance.
size_t Distance(Piece a, const char* b) noexcept {
  size_t row[41];
  size_t m = __builtin_strlen(b);
  if (m > 40) m = 40;
  if (a.size > 40) a.size = 40;
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

}  // namespace granary
