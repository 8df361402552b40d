// dies: granary: double free of an object of 4096 bytes
// a block freed again after one other is reported by the second call.
#include "../check.h"

int main() {
  void *const block = malloc(4096), *const other = malloc(4096);
  CHECK(block != nullptr && other != nullptr);
  free(block);
  free(Hide(other));
  free(Hide(block));
  _exit(0);
}
