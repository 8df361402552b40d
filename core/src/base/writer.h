// Prints into a fixed buffer without allocating, so that the allocator can use it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary {

class Writer {
 public:
  Writer(char* buffer, size_t capacity) : buffer_(buffer), capacity_(capacity) {}

  Writer& Text(const char* text) {
    while (*text != 0) Put(*text++);
    return *this;
  }

  Writer& Number(uint64_t n) {
    char digits[20];
    size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + n % 10);
      n /= 10;
    } while (n != 0);
    while (count > 0) Put(digits[--count]);
    return *this;
  }

  Writer& Hex(uintptr_t n) {
    Text("0x");
    int shift = 60;
    while (shift > 0 && (n >> shift) == 0) shift -= 4;
    for (; shift >= 0; shift -= 4) Put("0123456789abcdef"[(n >> shift) & 15]);
    return *this;
  }

  const char* data() const { return buffer_; }
  size_t size() const { return size_; }

 private:
  void Put(char c) {
    if (size_ < capacity_) buffer_[size_++] = c;
  }

  char* buffer_;
  size_t capacity_;
  size_t size_ = 0;
};

}  // namespace granary
