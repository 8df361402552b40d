// Seals: what option hardened keeps after each object of a slab. The last eight bytes of the
// object's memory hold its size and a code that depends on the address and on a secret of the
// process; the bytes between the object's end and the seal hold a pattern. Free objects are zero,
// seal included, as is memory that was never used or was purged.
//
//   | object: the requested bytes | margin: 0xd6 ... | seal: 00, code (40 bits), margin (16 bits) |
//
// The first byte of a seal is zero, so that a string without an end does not lead into the code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/units.h"

namespace granary::hardened {

inline constexpr size_t kSealBytes = sizeof(uint64_t);
// A longer margin is filled and checked only so far.
inline constexpr size_t kMostMargin = 128;

class Seals {
 public:
  constexpr Seals() = default;
  explicit constexpr Seals(uint64_t secret) : secret_(secret | 1) {}

  // Seals the object of `size` bytes at p, in `room` bytes of memory; room >= size + kSealBytes,
  // and a multiple of 8.
  void Close(char* p, size_t size, size_t room) const {
    const size_t margin = room - kSealBytes - size;
    ForMargin(p, size, room, [](uint64_t* word, uint64_t mask) {
      *word = (*word & ~mask) | (kPattern & mask);
      return true;
    });
    __atomic_store_n(SealOf(p, room), Word(p, margin), __ATOMIC_RELEASE);
  }

  // True if the memory at p is free: nothing seals it.
  static bool IsOpen(const char* p, size_t room) { return Load(p, room) == 0; }

  // True if the seal of p is the one that Close wrote.
  bool IsWhole(const char* p, size_t room) const {
    const uint64_t word = Load(p, room);
    const size_t margin = word >> kMarginShift;
    return margin <= room - kSealBytes && word == Word(p, margin);
  }
  // The size of the object; its seal is whole.
  static size_t SizeOf(const char* p, size_t room) {
    return room - kSealBytes - (Load(p, room) >> kMarginShift);
  }
  static bool MarginIsWhole(char* p, size_t room) {
    return ForMargin(p, SizeOf(p, room), room, [](const uint64_t* word, uint64_t mask) {
      return (*word & mask) == (kPattern & mask);
    });
  }

 private:
  static constexpr uint64_t kPattern = 0xd6d6d6d6d6d6d6d6u;
  static constexpr unsigned kMarginShift = 48;

  static uint64_t* SealOf(const char* p, size_t room) {
    return reinterpret_cast<uint64_t*>(const_cast<char*>(p) + room - kSealBytes);
  }
  static uint64_t Load(const char* p, size_t room) {
    return __atomic_load_n(SealOf(p, room), __ATOMIC_ACQUIRE);
  }

  // Never zero.
  uint64_t Word(const char* p, size_t margin) const {
    uint64_t code = (AddressOf(p) ^ uint64_t{margin} << kMarginShift) * secret_;
    code = (code ^ code >> 32) * 0x9e3779b97f4a7c15u;
    return uint64_t{margin} << kMarginShift | (code >> 24 | 1) << 8;
  }

  // Calls visit(word, mask) for each word of the margin, until it returns false; returns whether it
  // never did. The mask covers the bytes of the margin.
  template <class Visit>
  static bool ForMargin(char* p, size_t size, size_t room, Visit&& visit) {
    const size_t end = room - kSealBytes;
    const size_t last = end - size < kMostMargin ? end : RoundDown(size + kMostMargin, 8);
    size_t at = RoundDown(size, 8);
    if (at == last) return true;
    const auto word = [p](size_t offset) { return reinterpret_cast<uint64_t*>(p + offset); };
    if (!visit(word(at), ~uint64_t{0} << (size % 8 * 8))) return false;
    for (at += 8; at < last; at += 8) {
      if (!visit(word(at), ~uint64_t{0})) return false;
    }
    return true;
  }

  uint64_t secret_ = 1;
};

// Those of the process; heap::hardened::Init gives them their secret.
inline constinit Seals seals;

}  // namespace granary::hardened
