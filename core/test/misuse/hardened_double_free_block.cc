// dies: granary: double free of the block at 0x
// env: GRANARY_CONF=hardened:true
// A block with guards is freed twice.
#include "../check.h"

int main() {
  void* block = malloc(100000);
  CHECK(block != nullptr);
  free(Hide(block));
  free(Hide(block));
}
