// dies: granary: free of an unaligned address
// free of an 8 MiB block at +64.
#include "../check.h"

int main() {
  auto* block = static_cast<char*>(malloc(8 << 20));
  CHECK(block != nullptr);
  free(Hide(block + 64));
}
