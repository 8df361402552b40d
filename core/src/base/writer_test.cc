#include "base/writer.h"

#include <gtest/gtest.h>

#include <string>

#include "base/fake_die.h"

namespace granary {
namespace {

template <class Print>
std::string Printed(size_t capacity, Print print) {
  char buffer[64];
  Writer w(buffer, capacity);
  print(w);
  return {w.data(), w.size()};
}

TEST(Writer, PrintsTextNumbersAndAddresses) {
  const auto print = [](Writer& w) { w.Text("a ").Number(0).Text(" ").Number(1234567890); };
  EXPECT_EQ(Printed(64, print), "a 0 1234567890");
  EXPECT_EQ(Printed(64, [](Writer& w) { w.Number(UINT64_MAX); }), "18446744073709551615");
  EXPECT_EQ(Printed(64, [](Writer& w) { w.Hex(0); }), "0x0");
  EXPECT_EQ(Printed(64, [](Writer& w) { w.Hex(0x10); }), "0x10");
  EXPECT_EQ(Printed(64, [](Writer& w) { w.Hex(0xfedcba9876543210); }), "0xfedcba9876543210");
}

TEST(Writer, StopsWhereTheBufferEnds) {
  for (size_t capacity = 0; capacity < 12; ++capacity) {
    const auto print = [](Writer& w) { w.Text("abc").Number(123).Hex(0xabc).Text("d"); };
    EXPECT_EQ(Printed(capacity, print), std::string("abc1230xabcd").substr(0, capacity));
  }
}

}  // namespace
}  // namespace granary
