// Compares fetches, returns and page releases of Central with the set of live objects. The first
// byte says which call of Map the fake system refuses.
#include "base/fake_die.h"
#include "central/fake_central.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  granary::FakeSlabs slabs;
  granary::CentralProgram program(slabs);
  granary::FakeInput input(data, size);
  const size_t refused = input.Byte();
  if (refused < 16) granary::FakeOs::RefuseMap(refused, 2);
  program.Run(input, 32);
  program.ReturnAll();
  return 0;
}
