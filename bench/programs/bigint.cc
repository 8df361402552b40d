// A big-integer program: Lucas-Lehmer tests of known Mersenne primes. Every intermediate value is a
// new array of limbs with a short life. Many small short-lived objects with real work between
// allocations.
#include "bench.h"

namespace {

// A natural number, least significant limb first. Every operation makes a new number.
class Natural {
 public:
  explicit Natural(size_t size) : size_(size), limbs_(new uint32_t[size]) {}
  Natural(Natural&& other) noexcept
      : size_(other.size_), limbs_(std::exchange(other.limbs_, nullptr)) {}
  Natural& operator=(Natural&& other) noexcept {
    std::swap(size_, other.size_);
    std::swap(limbs_, other.limbs_);
    return *this;
  }
  ~Natural() { delete[] limbs_; }

  static Natural Of(uint32_t value) {
    Natural result(1);
    result.limbs_[0] = value;
    return result;
  }

  Natural Square() const {
    Natural result(2 * size_);
    std::fill_n(result.limbs_, result.size_, 0u);
    for (size_t i = 0; i < size_; ++i) {
      uint64_t carry = 0;
      for (size_t j = 0; j < size_; ++j) {
        carry += result.limbs_[i + j] + static_cast<uint64_t>(limbs_[i]) * limbs_[j];
        result.limbs_[i + j] = static_cast<uint32_t>(carry);
        carry >>= 32;
      }
      result.limbs_[i + size_] = static_cast<uint32_t>(carry);
    }
    return result.Trimmed();
  }

  Natural Plus(const Natural& other) const {
    Natural result(std::max(size_, other.size_) + 1);
    uint64_t carry = 0;
    for (size_t i = 0; i < result.size_; ++i) {
      carry += static_cast<uint64_t>(Limb(i)) + other.Limb(i);
      result.limbs_[i] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    return result.Trimmed();
  }

  // Requires other <= *this.
  Natural Minus(const Natural& other) const {
    Natural result(size_);
    int64_t borrow = 0;
    for (size_t i = 0; i < size_; ++i) {
      borrow += static_cast<int64_t>(limbs_[i]) - other.Limb(i);
      result.limbs_[i] = static_cast<uint32_t>(borrow);
      borrow >>= 32;
    }
    return result.Trimmed();
  }

  Natural Low(size_t bits) const {
    Natural result(std::min(size_, bits / 32 + 1));
    for (size_t i = 0; i < result.size_; ++i) result.limbs_[i] = limbs_[i];
    if (result.size_ == bits / 32 + 1) result.limbs_[bits / 32] &= (1u << (bits % 32)) - 1;
    return result.Trimmed();
  }

  Natural ShiftedRight(size_t bits) const {
    size_t skip = bits / 32;
    if (skip >= size_) return Of(0);
    Natural result(size_ - skip);
    for (size_t i = 0; i < result.size_; ++i) {
      uint64_t both = Limb(i + skip) | static_cast<uint64_t>(Limb(i + skip + 1)) << 32;
      result.limbs_[i] = static_cast<uint32_t>(both >> (bits % 32));
    }
    return result.Trimmed();
  }

  bool Less(const Natural& other) const {
    for (size_t i = std::max(size_, other.size_); i-- > 0;) {
      if (Limb(i) != other.Limb(i)) return Limb(i) < other.Limb(i);
    }
    return false;
  }
  bool IsZero() const { return size_ == 1 && limbs_[0] == 0; }
  bool FitsBits(size_t bits) const { return ShiftedRight(bits).IsZero(); }

 private:
  uint32_t Limb(size_t i) const { return i < size_ ? limbs_[i] : 0; }

  // A copy of the exact size, as a program makes that stores its numbers.
  Natural Trimmed() const {
    size_t used = size_;
    while (used > 1 && limbs_[used - 1] == 0) --used;
    Natural result(used);
    std::copy_n(limbs_, used, result.limbs_);
    return result;
  }

  size_t size_;
  uint32_t* limbs_;
};

// value mod 2^bits - 1: adds the halves until one is left.
Natural ModMersenne(Natural value, size_t bits, const Natural& modulus) {
  while (!value.FitsBits(bits)) value = value.Low(bits).Plus(value.ShiftedRight(bits));
  return value.Less(modulus) ? std::move(value) : value.Minus(modulus);
}

bool IsMersennePrime(size_t bits) {
  Natural one = Natural::Of(1);
  Natural power = one.Plus(Natural::Of(0));
  for (size_t i = 0; i < bits; ++i) power = power.Plus(power);
  Natural modulus = power.Minus(one);
  Natural two = Natural::Of(2);
  Natural term = Natural::Of(4);
  for (size_t i = 0; i < bits - 2; ++i) {
    Natural square = term.Square();
    if (square.Less(two)) square = square.Plus(modulus);
    term = ModMersenne(square.Minus(two), bits, modulus);
  }
  return term.IsZero();
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t rounds = args.Get("rounds", 12000, 1200);
  double start = bench::Now();
  for (size_t i = 0; i < rounds; ++i) {
    for (size_t bits : {61, 89, 107, 127}) {
      if (!IsMersennePrime(bits)) bench::Fail("a Mersenne prime was not found to be one");
    }
    if (i % 50 == 0 && !IsMersennePrime(521)) bench::Fail("2^521-1 was not found to be prime");
  }
  bench::Report("bigint", bench::Now() - start, "s");
}
