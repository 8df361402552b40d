// dies: granary: double free of an object of 262144 bytes
// a medium block freed twice is reported by the second call.
#include "../check.h"

int main() {
  void* const block = malloc(256 * 1024);
  CHECK(block != nullptr);
  free(block);
  free(Hide(block));
  _exit(0);
}
