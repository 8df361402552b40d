// Arithmetic on powers of two and on ranges of bits in word arrays.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace granary {

constexpr size_t RoundUp(size_t n, size_t power) { return (n + power - 1) & ~(power - 1); }
constexpr size_t RoundDown(size_t n, size_t power) { return n & ~(power - 1); }
constexpr size_t DivideUp(size_t n, size_t by) { return (n + by - 1) / by; }
constexpr bool IsAligned(uintptr_t n, size_t power) { return (n & (power - 1)) == 0; }

// A word with bits [first, first+count) set; first + count <= 64.
constexpr uint64_t MaskOf(unsigned first, unsigned count) {
  return count == 0 ? 0 : (~uint64_t{0} >> (64 - count)) << first;
}

// Calls visit(word_index, mask) for each word that contains bits of [first, first+count).
template <class Visit>
constexpr void ForWords(size_t first, size_t count, Visit&& visit) {
  while (count > 0) {
    const unsigned offset = first % 64;
    const unsigned here = count < 64 - offset ? static_cast<unsigned>(count) : 64 - offset;
    visit(first / 64, MaskOf(offset, here));
    first += here;
    count -= here;
  }
}

inline void SetBits(uint64_t* words, size_t first, size_t count) {
  ForWords(first, count, [&](size_t w, uint64_t mask) { words[w] |= mask; });
}

inline void ClearBits(uint64_t* words, size_t first, size_t count) {
  ForWords(first, count, [&](size_t w, uint64_t mask) { words[w] &= ~mask; });
}

inline bool AllSet(const uint64_t* words, size_t first, size_t count) {
  bool all = true;
  ForWords(first, count, [&](size_t w, uint64_t mask) { all &= (words[w] & mask) == mask; });
  return all;
}

inline size_t CountBits(const uint64_t* words, size_t first, size_t count) {
  size_t sum = 0;
  ForWords(first, count, [&](size_t w, uint64_t mask) { sum += std::popcount(words[w] & mask); });
  return sum;
}

// The bits [first, first+count) as a number; count <= 64.
inline uint64_t BitsAt(const uint64_t* words, size_t first, size_t count) {
  const unsigned offset = first % 64;
  uint64_t bits = words[first / 64] >> offset;
  if (offset + count > 64) bits |= words[first / 64 + 1] << (64 - offset);
  return bits & MaskOf(0, static_cast<unsigned>(count));
}

// Sets bit first+i for each bit i of `bits`.
inline void SetBitsAt(uint64_t* words, size_t first, uint64_t bits) {
  const unsigned offset = first % 64;
  words[first / 64] |= bits << offset;
  if (offset > 0 && bits >> (64 - offset) != 0) words[first / 64 + 1] |= bits >> (64 - offset);
}

// A maximal run of equal bits.
struct BitRun {
  size_t first = 0;
  size_t count = 0;
};

__extension__ using Uint128 = unsigned __int128;

// A set of at most 128 bits as one number: whole runs of bits in a few instructions.
class RunSet {
 public:
  explicit constexpr RunSet(Uint128 bits) : bits_(bits) {}

  constexpr bool empty() const { return bits_ == 0; }

  // Removes the lowest run of ones and returns it. The set is not empty.
  constexpr BitRun TakeLowest() {
    const size_t first = Zeros(bits_);
    const Uint128 above = bits_ + (Uint128{1} << first);  // the carry ends the run
    bits_ &= above;
    return {first, Zeros(above) - first};
  }

 private:
  static constexpr size_t Zeros(Uint128 n) {
    const auto low = static_cast<uint64_t>(n);
    return low != 0 ? static_cast<size_t>(std::countr_zero(low))
                    : 64 + static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(n >> 64)));
  }

  Uint128 bits_;
};

// The first index >= from, below limit, whose bit equals `value`; limit if there is none.
inline size_t FindBit(const uint64_t* words, size_t from, size_t limit, bool value) {
  while (from < limit) {
    const uint64_t word = value ? words[from / 64] : ~words[from / 64];
    const uint64_t rest = word >> (from % 64);
    if (rest != 0) {
      const size_t found = from + std::countr_zero(rest);
      return found < limit ? found : limit;
    }
    from = RoundDown(from, 64) + 64;
  }
  return limit;
}

// The lowest index up to `end` from which on all bits below `end` equal `value`.
inline size_t RunBegin(const uint64_t* words, size_t end, bool value) {
  while (end > 0) {
    const uint64_t word = value ? words[(end - 1) / 64] : ~words[(end - 1) / 64];
    const size_t inside = (end - 1) % 64 + 1;
    const auto equal = static_cast<size_t>(std::countl_one(word << (64 - inside)));
    if (equal < inside) return end - equal;
    end -= inside;
  }
  return 0;
}

// The next maximal run of `value` bits at or after `from`; a run with count 0 if there is none.
inline BitRun NextRun(const uint64_t* words, size_t from, size_t limit, bool value) {
  const size_t first = FindBit(words, from, limit, value);
  return {first, FindBit(words, first, limit, !value) - first};
}

}  // namespace granary
