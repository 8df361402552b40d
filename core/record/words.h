// Writes events into a buffer, as words. An event's own word is the last of those that it takes, so
// a reader of a buffer whose process was killed finds whole events only.
#pragma once

#include <bit>
#include <cstring>

#include "format.h"

namespace granary::record {

// True for all but large objects.
inline bool FitsIntoWord(size_t size, uintptr_t address) {
  return (size >> kWordSizeBits | address >> kWordAddressBits) == 0;
}
inline uint64_t WordOf(Kind kind, size_t size, uintptr_t address) {
  static_assert(kWordAddressShift + kWordAddressBits - 3 == 64);
  return static_cast<uint64_t>(kind) | size << kWordSizeShift | address >> 3 << kWordAddressShift;
}

class Words {
 public:
  // Goes on in a buffer of zeros.
  void Begin(uint8_t* buffer, uint64_t ticks) {
    at_ = reinterpret_cast<uint64_t*>(buffer + sizeof(ChunkHeader));
    end_ = reinterpret_cast<uint64_t*>(buffer + kBufferBytes) - kMaxEventWords;
    pause_ = at_;
    ticks_ = ticks;
  }
  void Leave() { at_ = end_ = pause_ = nullptr; }

  bool HasRoom() const { return at_ < end_; }
  bool IsEmpty() const {
    return at_ == reinterpret_cast<const uint64_t*>(buffer() + sizeof(ChunkHeader));
  }
  // Where the thread stops to move the clock on, or to get another buffer.
  bool IsAtPause() const { return at_ >= pause_; }
  void MovePause() {
    constexpr uintptr_t kEvery = 64 * sizeof(uint64_t);
    const uintptr_t next = (reinterpret_cast<uintptr_t>(at_) | (kEvery - 1)) + 1;
    pause_ = reinterpret_cast<uint64_t*>(next);
    if (pause_ > end_) pause_ = end_;
  }
  uint64_t ticks() const { return ticks_; }
  uint8_t* buffer() const {
    return end_ == nullptr ? nullptr
                           : reinterpret_cast<uint8_t*>(end_ + kMaxEventWords) - kBufferBytes;
  }
  const uint64_t* at() const { return at_; }

  // The event is a word. There is room.
  void Put(uint64_t word) {
    uint64_t* const at = at_;
    at_ = at + 1;
    __atomic_store_n(at, word, __ATOMIC_RELEASE);
  }

  void Event(Kind kind, size_t size, size_t alignment, const void* p, uint64_t ticks) {
    if (ticks != ticks_) Put(Context::kTime, ticks);
    ticks_ = ticks;
    const auto address = reinterpret_cast<uintptr_t>(p);
    if (size >> kWordSizeBits != 0 || kind == Kind::kAligned) {
      constexpr size_t kMost = (size_t{1} << (64 - kContextBits - kAlignmentBits)) - 1;
      const uint64_t most = size < kMost ? size : kMost;  // no allocator has more
      Put(Context::kSize,
          most << kAlignmentBits | static_cast<unsigned>(std::countr_zero(alignment)));
      size = 0;
    }
    const uintptr_t high = address >> kWordAddressBits;
    if (high != 0) Put(Context::kAddress, high);
    Put(WordOf(kind, size, address ^ high << kWordAddressBits));
  }
  void Written(uint64_t kib) { Put(Context::kWritten, kib); }
  void Stack(uint32_t number) { Put(Context::kStack, number); }

 private:
  void Put(Context context, uint64_t number) {
    Put(static_cast<uint64_t>(Kind::kOther) | static_cast<uint64_t>(context) << kKindBits |
        number << kContextBits);
  }

  uint64_t* at_;
  uint64_t* pause_;
  uint64_t* end_;
  uint64_t ticks_;
};

}  // namespace granary::record
