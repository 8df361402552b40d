// dies: granary: free of an unaligned address
// an interior free among many good ones, so that it is found when they are flushed.
#include "../check.h"

int main() {
  static void* blocks[5000];
  for (void*& block : blocks) {
    block = malloc(64);
    CHECK(block != nullptr);
  }
  blocks[100] = Hide(static_cast<char*>(blocks[100]) + 16);
  for (void* block : blocks) free(block);
}
