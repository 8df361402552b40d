// Allocations, frees, resizes and purges of the page heap, compared with a model. The first byte
// selects the call of Map that is refused.
#include "base/fake_die.h"
#include "pages/fake_pages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  granary::FakePages pages;
  granary::PageProgram program(pages);
  granary::FakeInput input(data, size);
  const size_t refused = input.Byte();
  if (refused < 16) granary::FakeOs::RefuseMap(refused, 2);
  program.Run(input, 16);
  program.FreeAll();
  return 0;
}
