// Logarithm and exponential to about 1e-13, because the library does without libm.
#pragma once

#include <bit>
#include <cstdint>

namespace granary {

// ln x, for x > 0 that is neither subnormal nor infinite.
constexpr double NaturalLog(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1023} << 52);
  if (m > 1.4142135623730951) {
    m /= 2;
    ++exponent;
  }
  // ln m = 2 artanh(s) with s = (m - 1) / (m + 1), which is below 0.172
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int i = 17; i >= 1; i -= 2) sum = sum * square + 1.0 / i;
  return exponent * 0.6931471805599453 + 2 * s * sum;
}

// 1 - exp(-x), for x >= 0.
constexpr double OneMinusExp(double x) {
  if (x > 40) return 1;
  int halvings = 0;
  for (; x > 0.5; x /= 2) ++halvings;
  double term = x, sum = x;
  for (int i = 2; i <= 14; ++i) {
    term *= -x / i;
    sum += term;
  }
  for (; halvings > 0; --halvings) sum = sum * (2 - sum);  // 1 - (1 - sum)^2
  return sum;
}

}  // namespace granary
