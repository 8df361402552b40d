// dies: granary: free of an unaligned address
// free of a 20,000-byte block at +4096.
#include "../check.h"

int main() {
  auto* block = static_cast<char*>(malloc(20000));
  CHECK(block != nullptr);
  free(Hide(block + 4096));
}
