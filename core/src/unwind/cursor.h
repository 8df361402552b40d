// Reads numbers one after the other in the encodings of DWARF. After the end, or where memory
// cannot be read, every result is 0 and failed() is true.
#pragma once

#include <cstddef>
#include <cstdint>

#include "unwind/table_memory.h"

namespace granary::unwind {

class Cursor {
 public:
  Cursor(TableMemory& memory, uintptr_t at, uintptr_t end) noexcept
      : memory_(&memory), at_(at), end_(end < at ? at : end) {}

  uintptr_t at() const { return at_; }
  bool AtEnd() const { return failed_ || at_ >= end_; }
  size_t left() const { return end_ - at_; }
  bool failed() const { return failed_; }
  void Skip(uint64_t bytes) noexcept {
    if (bytes > end_ - at_) failed_ = true;
    if (!failed_) at_ += bytes;
  }

  template <class T>
  T Fixed() noexcept {
    uint8_t bytes[sizeof(T)];
    for (uint8_t& byte : bytes) byte = Byte();
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  uint8_t Byte() noexcept {
    if (AtEnd() || !Load()) return 0;
    return window_[at_++ - first_];
  }
  uint64_t Unsigned() noexcept;  // ULEB128
  int64_t Signed() noexcept;     // SLEB128
  // Reads an address in the encoding of an .eh_frame's augmentation, for example relative to its
  // own position.
  uint64_t Address(uint8_t encoding) noexcept;
  // Reads a number in the same encoding that is relative to nothing: a length.
  uint64_t Length(uint8_t encoding) noexcept;
  void Fail() noexcept { failed_ = true; }

 private:
  // Copies the bytes from at_ on into window_, unless they are there already.
  bool Load() noexcept;

  TableMemory* memory_;
  uintptr_t at_, end_;
  uintptr_t first_ = 0;
  size_t held_ = 0;
  bool failed_ = false;
  uint8_t window_[64];
};

}  // namespace granary::unwind
