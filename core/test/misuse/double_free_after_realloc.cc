// dies: granary: double free
// the old address freed after realloc moved the block.
#include "../check.h"

int main() {
  void* block = malloc(40);
  CHECK(block != nullptr);
  void* old = Hide(block);
  void* moved = realloc(block, 5000);
  CHECK(moved != nullptr && moved != old);
  free(old);
  free(moved);
}
