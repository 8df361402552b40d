// dies: granary: double free of an object of
// a block freed twice, after a string of the block before it was written one byte too far.
#include "../check.h"

int main() {
  char* const first = static_cast<char*>(Hide(malloc(24)));
  void* const second = malloc(0x118);
  CHECK(first != nullptr && second != nullptr);
  free(second);
  strcpy(first, "BBBBBBBBBBBBBBBBBBBBBBBB");
  free(Hide(second));
  _exit(0);
}
