// dies: granary: double free
// a 20,000-byte block freed twice.
#include "../check.h"

int main() {
  void* block = malloc(20000);
  CHECK(block != nullptr);
  void* again = Hide(block);
  free(block);
  free(again);
}
