// Damaged tables of a module. The first bytes choose the address and the bytes to overwrite; the
// rest become the programs of the entries. The code must read nothing outside the tables, and
// terminate.
#include <cstring>
#include <memory>

#include "base/fake_die.h"
#include "base/fake_input.h"
#include "unwind/cfi.h"
#include "unwind/fake_tables.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  granary::FakeInput input(data, size);
  const size_t pc = input.Word();
  const size_t common = input.Below(64);
  const size_t program = input.Below(512);
  uint8_t damage[8][3];
  for (auto& one : damage) {
    for (uint8_t& byte : one) byte = input.Byte();
  }
  granary::unwind::FakeTables tables;
  for (size_t i = 0; i < common; ++i) tables.Common({input.Byte()});
  for (size_t i = 0; i < program; ++i) tables.Program({input.Byte()});
  const bool whole = input.Done();
  std::vector<uint8_t> bytes = tables.Build();
  for (const auto& one : damage) {
    const size_t at = one[0] | size_t{one[1]} << 8;
    if (!whole && at < bytes.size()) bytes[at] = one[2];
  }
  // On the heap, so that the address sanitizer detects reads beyond the end.
  const std::unique_ptr<uint8_t[]> module(new uint8_t[bytes.size()]);
  std::memcpy(module.get(), bytes.data(), bytes.size());
  const auto begin = reinterpret_cast<uintptr_t>(module.get());
  granary::unwind::FindRule({begin, begin + bytes.size(), begin}, begin + pc);
  return 0;
}
