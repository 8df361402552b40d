// dies: granary: free of an unaligned address
// free of a 64-byte block at +8.
#include "../check.h"

int main() {
  auto* block = static_cast<char*>(malloc(64));
  CHECK(block != nullptr);
  free(Hide(block + 8));
}
