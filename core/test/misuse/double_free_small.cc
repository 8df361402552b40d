// dies: granary: double free
// a small block freed twice in a row.
#include "../check.h"

int main() {
  void* block = malloc(64);
  CHECK(block != nullptr);
  void* again = Hide(block);
  free(block);
  free(again);
}
