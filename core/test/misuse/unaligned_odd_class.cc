// dies: granary: free of an unaligned address
// free of the second half of a block whose size is no power of two.
#include "../check.h"

int main() {
  auto* block = static_cast<char*>(malloc(96));
  CHECK(block != nullptr);
  free(Hide(block + 48));
}
