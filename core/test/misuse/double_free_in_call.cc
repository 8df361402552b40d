// dies: granary: double free of an object of 64 bytes
// a block freed twice in a row is reported by the second call.
#include "../check.h"

int main() {
  void* const block = malloc(64);
  CHECK(block != nullptr);
  free(block);
  free(Hide(block));
  _exit(0);
}
