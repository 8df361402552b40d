// A stream of bytes that chooses the next step of a test. The bytes come from a fuzzer or from a
// seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace granary {

class FakeInput {
 public:
  FakeInput(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool Done() const { return at_ == size_; }
  uint8_t Byte() { return Done() ? 0 : data_[at_++]; }
  size_t Word() {
    const size_t low = Byte();
    return low | size_t{Byte()} << 8;
  }
  size_t Below(size_t bound) { return (bound <= 256 ? Byte() : Word()) % bound; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

inline std::vector<uint8_t> BytesFrom(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

}  // namespace granary
