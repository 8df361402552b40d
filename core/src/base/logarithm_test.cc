#include "base/logarithm.h"

#include <gtest/gtest.h>

#include <cmath>

namespace granary {
namespace {

TEST(Logarithm, AgreesWithTheCLibrary) {
  for (double x = 1e-17; x < 1e17; x *= 1.37) {
    EXPECT_NEAR(NaturalLog(x), std::log(x), 1e-12 * (1 + std::fabs(std::log(x)))) << x;
  }
  EXPECT_EQ(NaturalLog(1), 0);
}

TEST(Logarithm, OneMinusExpAgreesWithTheCLibrary) {
  for (double x = 1e-15; x < 100; x *= 1.21) {
    EXPECT_NEAR(OneMinusExp(x) / -std::expm1(-x), 1, 1e-12) << x;
  }
  EXPECT_EQ(OneMinusExp(0), 0);
}

}  // namespace
}  // namespace granary
