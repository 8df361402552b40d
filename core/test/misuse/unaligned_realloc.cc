// dies: granary: realloc of an unaligned address
// Reallocates the middle of a block, whose size class does not reveal that.
#include "../check.h"

int main() {
  char* const block = static_cast<char*>(malloc(48));
  CHECK(block != nullptr);
  void* const moved = realloc(Hide(block + 16), 100);
  _exit(moved == nullptr ? 1 : 0);
}
