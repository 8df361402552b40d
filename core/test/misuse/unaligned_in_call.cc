// dies: granary: free of an unaligned address
// the middle of a block is reported by the call.
#include "../check.h"

int main() {
  char* const block = static_cast<char*>(malloc(64));
  CHECK(block != nullptr);
  free(Hide(block + 8));
  _exit(0);
}
