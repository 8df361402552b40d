// Parts of option texts, and the numbers in them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary {

struct Piece {
  const char* data = nullptr;
  size_t size = 0;

  bool Is(const char* other) const {
    const size_t n = __builtin_strlen(other);
    return n == size && __builtin_memcmp(data, other, n) == 0;
  }
  bool Begins(const char* with) const {
    const size_t n = __builtin_strlen(with);
    return n <= size && __builtin_memcmp(data, with, n) == 0;
  }
};

struct Pair {
  Piece name;
  Piece value;
};

// Iterates over "name:value,name=value". A newline separates pairs like a comma. A '#' where a name
// starts begins a comment.
class Pairs {
 public:
  explicit Pairs(Piece text) : at_(text.data), end_(text.data + text.size) {}

  // False at the end.
  bool Next(Pair* pair) {
    for (;;) {
      while (at_ < end_ && (Stops(*at_) || Blank(*at_))) ++at_;
      if (at_ == end_) return false;
      if (*at_ != '#') break;
      while (at_ < end_ && *at_ != '\n') ++at_;
    }
    pair->name = Rest(true);
    pair->value = {};
    if (at_ < end_ && EndsName(*at_)) {
      ++at_;
      pair->value = Rest(false);
    }
    return true;
  }

 private:
  static bool Stops(char c) { return c == ',' || c == '\n'; }
  static bool Blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

  static bool EndsName(char c) { return c == ':' || c == '='; }

  // The rest of the name or the value, without the blanks around it.
  Piece Rest(bool name) {
    const char* begin = at_;
    while (at_ < end_ && !Stops(*at_) && !(name && EndsName(*at_))) ++at_;
    const char* last = at_;
    while (begin < last && Blank(*begin)) ++begin;
    while (last > begin && Blank(last[-1])) --last;
    return {begin, static_cast<size_t>(last - begin)};
  }

  const char* at_;
  const char* end_;
};

// Parses an integer: decimal, hexadecimal (0x) or octal (leading 0).
bool ParseNumber(Piece text, int64_t* value) noexcept;
// Parses "true", "false" or an integer.
bool ParseBoolean(Piece text, int64_t* value) noexcept;

// The unit of an option's value: a size is in bytes, a duration in milliseconds.
enum class Unit : uint8_t { kNone, kBytes, kMilliseconds };

// Parses a decimal integer and a unit, as in "64KiB", "50 MB" or "5s". Sizes: B, KiB, MiB, GiB, TiB
// (powers of 1,024), KB, MB, GB, TB (powers of 1,000). Durations: ms, s, m (minutes), h. Upper and
// lower case are the same. False without a unit, or if the result exceeds 63 bits.
bool ParseAmount(Piece text, Unit unit, int64_t* value) noexcept;

// The number of letters to change to turn one name into the other. Compares only the first 40
// letters.
size_t Distance(Piece a, const char* b) noexcept;

}  // namespace granary
