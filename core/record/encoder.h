// Packs events into a chunk. An event's first byte is written last: a reader of a chunk whose
// process was killed finds whole events only.
#pragma once

#include <bit>
#include <cstring>

#include "format.h"

namespace granary::record {

class Encoder {
 public:
  // Goes on at `at`, in a chunk that ends at `end` and holds zeros from `at` on.
  void Begin(uint8_t* at, uint8_t* end, uint64_t ticks) {
    at_ = at;
    end_ = end;
    ticks_ = ticks;
    address_ = 0;
  }
  void Leave() { at_ = end_ = nullptr; }
  // Takes back what is behind `at`, which must be before a Thread.
  void Return(uint8_t* at) {
    std::memset(at, 0, static_cast<size_t>(at_ - at));
    at_ = at;
  }

  bool HasRoom() const { return static_cast<size_t>(end_ - at_) >= kMaxEventBytes; }
  uint8_t* at() const { return at_; }
  uint8_t* end() const { return end_; }
  uint64_t ticks() const { return ticks_; }

  void Event(Kind kind, size_t size, unsigned log2_of_alignment, uintptr_t address,
             uint64_t ticks) {
    uint8_t* to = Time(ticks);
    // The size of an event that has none is 0, whose byte the next field replaces. No branch: which
    // kind follows which cannot be predicted.
    const auto sized = static_cast<size_t>(Number(to, size) - to);
    to += sized * (kSizedKinds >> static_cast<unsigned>(kind) & 1);
    if (kind == Kind::kAligned) *to++ = static_cast<uint8_t>(log2_of_alignment);
    Commit(kind, Address(to, address));
  }

  void Thread(uint32_t thread, uint64_t ticks) {
    Commit(Other::kThread, Number(Number(at_ + 1, thread), ticks));
    ticks_ = ticks;
    address_ = 0;
  }

  void Written(uint64_t kib) { Commit(Other::kWritten, Number(at_ + 1, kib)); }

  void Stack(uint32_t number) { Commit(Other::kStack, Number(at_ + 1, number)); }

  void DefineStack(uint32_t number, const uintptr_t* frames, size_t count) {
    uint8_t* to = Number(Number(at_ + 1, number), count);
    uintptr_t last = 0;
    for (size_t i = 0; i < count; last = frames[i++]) to = Distance(to, frames[i] - last);
    Commit(Other::kDefinesStack, to);
  }

 private:
  static uint8_t* Number(uint8_t* to, uint64_t n) {
    return n >> 28 == 0 ? Short(to, static_cast<uint32_t>(n)) : Long(to, n);
  }
  static uint8_t* Long(uint8_t* to, uint64_t n) {
    for (; n >= 0x80; n >>= 7) *to++ = static_cast<uint8_t>(n | 0x80);
    *to++ = static_cast<uint8_t>(n);
    return to;
  }
  // Without branches, as the lengths of numbers cannot be predicted. Writes four bytes; those after
  // the number stay zeros.
  static uint8_t* Short(uint8_t* to, uint32_t n) {
    const unsigned bytes =
        (static_cast<unsigned>(std::bit_width(n | 1)) * 9 + 64) >> 6;  // a seventh
    const uint32_t groups =
        (n & 0x7f) | (n & 0x3f80) << 1 | (n & 0x1fc000) << 2 | (n & 0xfe00000) << 3;
    const uint32_t word = groups | (0x808080u & ((1u << (8 * bytes - 8)) - 1));
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(to, &word, sizeof word);
    return to + bytes;
  }

  static constexpr unsigned kSizedKinds =
      1u << static_cast<unsigned>(Kind::kAllocated) | 1u << static_cast<unsigned>(Kind::kZeroed) |
      1u << static_cast<unsigned>(Kind::kAligned) | 1u << static_cast<unsigned>(Kind::kMoved);

  uint8_t* Time(uint64_t ticks) {
    const uint64_t delta = ticks - ticks_;
    ticks_ = ticks;
    short_time_ = delta < kLongTime ? delta : kLongTime;
    return delta < kLongTime ? at_ + 1 : Number(at_ + 1, delta);
  }

  // The distance to the last address, in units of 8 bytes, with the sign in the lowest bit.
  uint8_t* Address(uint8_t* to, uintptr_t bytes) {
    const uintptr_t address = bytes >> 3;
    const uintptr_t delta = address - address_;
    address_ = address;
    return Distance(to, delta);
  }

  static uint8_t* Distance(uint8_t* to, uintptr_t delta) {
    const auto sign = static_cast<uint64_t>(static_cast<int64_t>(delta) >> 63);
    return Number(to, delta << 1 ^ sign);
  }

  void Commit(Kind kind, uint8_t* next) { Commit(kind, short_time_, next); }
  void Commit(Other other, uint8_t* next) {
    Commit(Kind::kOther, static_cast<uint64_t>(other), next);
  }
  void Commit(Kind kind, uint64_t high, uint8_t* next) {
    const auto first = static_cast<uint8_t>(static_cast<uint64_t>(kind) | high << kKindBits);
    __atomic_store_n(at_, first, __ATOMIC_RELEASE);
    at_ = next;
  }

  uint8_t* at_;
  uint8_t* end_;
  uint64_t ticks_;
  uint64_t short_time_;
  uintptr_t address_;
};

}  // namespace granary::record
