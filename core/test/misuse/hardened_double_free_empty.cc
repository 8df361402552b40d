// dies: granary: double free of the block at 0x
// env: GRANARY_CONF=hardened:true
// An object of no bytes is freed twice.
#include "../check.h"

int main() {
  void* block = malloc(HideSize(0));
  CHECK(block != nullptr);
  free(Hide(block));
  free(Hide(block));
}
