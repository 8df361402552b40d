// dies: granary: double free
// a block freed twice with ten thousand frees of its size between.
#include "../check.h"

int main() {
  static void* blocks[10000];
  for (void*& block : blocks) {
    block = malloc(64);
    CHECK(block != nullptr);
  }
  void* again = Hide(blocks[0]);
  for (void* block : blocks) free(block);
  free(again);
}
