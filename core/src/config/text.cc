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
    if (digit >= base || __builtin_mul_overflow(sum, base, &sum)) return false;
    if (__builtin_add_overflow(sum, digit, &sum)) return false;
  }
  *value = negative ? -sum : sum;
  return true;
}

bool ParseBoolean(Piece text, int64_t* value) noexcept {
  if (text.Is("true")) return *value = 1, true;
  if (text.Is("false")) return *value = 0, true;
  return ParseNumber(text, value);
}

namespace {

struct UnitName {
  char name[4];
  Unit unit;
  int64_t factor;
};
constexpr int64_t kSecond = 1000;
constexpr UnitName kUnitNames[] = {
    {"b", Unit::kBytes, 1},
    {"kib", Unit::kBytes, int64_t{1} << 10},
    {"mib", Unit::kBytes, int64_t{1} << 20},
    {"gib", Unit::kBytes, int64_t{1} << 30},
    {"tib", Unit::kBytes, int64_t{1} << 40},
    {"kb", Unit::kBytes, 1000},
    {"mb", Unit::kBytes, 1000 * 1000},
    {"gb", Unit::kBytes, 1000 * 1000 * 1000},
    {"tb", Unit::kBytes, int64_t{1000} * 1000 * 1000 * 1000},
    {"ms", Unit::kMilliseconds, 1},
    {"s", Unit::kMilliseconds, kSecond},
    {"m", Unit::kMilliseconds, 60 * kSecond},
    {"h", Unit::kMilliseconds, 3600 * kSecond},
};

bool SameLetters(Piece text, const char* lower) {
  size_t i = 0;
  while (i < text.size && lower[i] != 0 && (text.data[i] | 0x20) == lower[i]) ++i;
  return i == text.size && lower[i] == 0;
}

}  // namespace

bool ParseAmount(Piece text, Unit unit, int64_t* value) noexcept {
  int64_t number = 0;
  size_t i = 0;
  for (; i < text.size && DigitOf(text.data[i]) < 10; ++i) {
    if (__builtin_mul_overflow(number, 10, &number)) return false;
    if (__builtin_add_overflow(number, DigitOf(text.data[i]), &number)) return false;
  }
  if (i == 0) return false;
  while (i < text.size && text.data[i] == ' ') ++i;
  const Piece name{text.data + i, text.size - i};
  for (const UnitName& row : kUnitNames) {
    if (row.unit == unit && SameLetters(name, row.name)) {
      return !__builtin_mul_overflow(number, row.factor, value);
    }
  }
  return false;
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
