// Seals: what option hardened keeps after each object of a slab. The last eight bytes of the
// object's memory hold its size and a code that depends on the address and on secrets of the
// process; the bytes between the object's end and the seal hold a pattern. Free objects are zero,
// seal included, as is memory that was never used or was purged.
//
//   | object: the requested bytes | margin: 0xd6 ... | seal: 00, code (40 bits), margin (16 bits) |
//
// The first byte of a seal is zero, so that a string without an end does not lead into the code.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/units.h"

namespace granary::hardened {

inline constexpr size_t kSealBytes = sizeof(uint64_t);
// A longer margin is filled and checked only so far.
inline constexpr size_t kMostMargin = 128;

namespace internal_seal {

// A margin below 16 bytes, as most are, is at the end of the two words before the seal.
inline constexpr size_t kShortMargin = 16;
struct Ends {
  uint64_t low = 0, high = 0;
};
consteval auto MakeMasks() {
  std::array<Ends, kShortMargin> masks{};
  for (size_t margin = 1; margin < kShortMargin; ++margin) {
    const uint64_t part = ~uint64_t{0} << (64 - margin * 8) % 64;
    masks[margin] = margin < 8 ? Ends{0, part} : Ends{margin == 8 ? 0 : part, ~uint64_t{0}};
  }
  return masks;
}
inline constexpr auto kMasks = MakeMasks();

}  // namespace internal_seal

class Seals {
 public:
  constexpr Seals() = default;
  constexpr Seals(uint64_t secret, uint64_t second) : secret_(secret), second_(second) {}

  // Seals the object of `size` bytes at p, in `room` bytes of memory; room >= size + kSealBytes,
  // and a multiple of 8, 16 or more.
  void Close(char* p, size_t size, size_t room) const {
    const size_t margin = room - kSealBytes - size;
    ForMargin(p, size, room, [](uint64_t* word, uint64_t mask) {
      *word = (*word & ~mask) | (kPattern & mask);
      return true;
    });
    __atomic_store_n(SealOf(p, room), Word(p, uint64_t{margin} << kMarginShift), __ATOMIC_RELEASE);
  }
  // The same for memory that is zero.
  GRANARY_ALWAYS_INLINE void CloseFree(char* p, size_t size, size_t room) const {
    const size_t margin = room - kSealBytes - size;
    if (margin >= kShortMargin) return Close(p, size, room);
    const internal_seal::Ends& mask = internal_seal::kMasks[margin];
    *LowOf(p, room) = kPattern & mask.low;
    *HighOf(p, room) = kPattern & mask.high;  // the same word in 16 bytes
    __atomic_store_n(SealOf(p, room), Word(p, uint64_t{margin} << kMarginShift), __ATOMIC_RELEASE);
  }

  // The word where the seal of the object at p is; zero if the memory is free: nothing seals it.
  GRANARY_ALWAYS_INLINE static uint64_t WordOf(const char* p, size_t room) {
    return __atomic_load_n(SealOf(p, room), __ATOMIC_ACQUIRE);
  }
  static bool IsOpen(const char* p, size_t room) { return WordOf(p, room) == 0; }

  // True if `word` is the seal that Close wrote for the object at p.
  GRANARY_ALWAYS_INLINE bool Fits(const char* p, uint64_t word) const {
    return word == Word(p, word & kMarginBits);
  }
  bool IsWhole(const char* p, size_t room) const {
    const uint64_t word = WordOf(p, room);
    return word >> kMarginShift <= room - kSealBytes && Fits(p, word);
  }
  // The size of the object; its seal is whole.
  GRANARY_ALWAYS_INLINE static size_t SizeIn(uint64_t word, size_t room) {
    return room - kSealBytes - (word >> kMarginShift);
  }
  static size_t SizeOf(const char* p, size_t room) { return SizeIn(WordOf(p, room), room); }

  // True if nobody wrote to the margin of the object with the seal `word`.
  GRANARY_ALWAYS_INLINE static bool MarginIsWhole(char* p, size_t room, uint64_t word) {
    const size_t margin = word >> kMarginShift;
    if (margin >= kShortMargin) {
      return ForMargin(p, SizeIn(word, room), room, [](const uint64_t* at, uint64_t mask) {
        return (*at & mask) == (kPattern & mask);
      });
    }
    const internal_seal::Ends& mask = internal_seal::kMasks[margin];
    return (((*LowOf(p, room) ^ kPattern) & mask.low) |
            ((*HighOf(p, room) ^ kPattern) & mask.high)) == 0;
  }
  static bool MarginIsWhole(char* p, size_t room) {
    return MarginIsWhole(p, room, WordOf(p, room));
  }

 private:
  static constexpr size_t kShortMargin = internal_seal::kShortMargin;
  static constexpr uint64_t kPattern = 0xd6d6d6d6d6d6d6d6u;
  static constexpr unsigned kMarginShift = 48;
  static constexpr uint64_t kMarginBits = ~uint64_t{0} << kMarginShift;

  static uint64_t* WordAt(const char* p, size_t offset) {
    return reinterpret_cast<uint64_t*>(const_cast<char*>(p) + offset);
  }
  static uint64_t* SealOf(const char* p, size_t room) { return WordAt(p, room - kSealBytes); }
  static uint64_t* HighOf(const char* p, size_t room) { return WordAt(p, room - 2 * kSealBytes); }
  static uint64_t* LowOf(const char* p, size_t room) {
    return WordAt(p, room < 3 * kSealBytes ? 0 : room - 3 * kSealBytes);
  }

  // Never zero. `margin` is in its place in the word.
  GRANARY_ALWAYS_INLINE uint64_t Word(const char* p, uint64_t margin) const {
    const Uint128 product = Uint128{AddressOf(p) ^ secret_} * (second_ ^ margin);
    const uint64_t code = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    return margin | (code >> 24 | 1) << 8;
  }

  // Calls visit(word, mask) for each word of the margin, until it returns false; returns whether it
  // never did. The mask covers the bytes of the margin.
  template <class Visit>
  GRANARY_ALWAYS_INLINE static bool ForMargin(char* p, size_t size, size_t room, Visit&& visit) {
    const size_t end = room - kSealBytes;
    const size_t last = end - size < kMostMargin ? end : RoundDown(size + kMostMargin, 8);
    size_t at = RoundDown(size, 8);
    if (at == last) return true;
    if (!visit(WordAt(p, at), ~uint64_t{0} << (size % 8 * 8))) return false;
    for (at += 8; at < last; at += 8) {
      if (!visit(WordAt(p, at), ~uint64_t{0})) return false;
    }
    return true;
  }

  uint64_t secret_ = 0, second_ = 0;
};

// Those of the process; heap::hardened::Init gives them their secrets.
inline constinit Seals seals;

}  // namespace granary::hardened
