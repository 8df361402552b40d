// dies: granary: double free
// an 8-byte block freed twice.
#include "../check.h"

int main() {
  void* block = malloc(8);
  CHECK(block != nullptr);
  void* again = Hide(block);
  free(block);
  free(again);
}
