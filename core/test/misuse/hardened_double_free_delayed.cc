// dies: granary: double free of an object of 64 bytes
// env: GRANARY_CONF=hardened:true,check_at_exit:false
// Many frees of the same size lie between the two.
#include "../check.h"

int main() {
  void* blocks[100];
  for (void*& block : blocks) {
    block = Hide(malloc(50));
    CHECK(block != nullptr);
  }
  for (void* block : blocks) free(block);
  free(Hide(blocks[0]));
}
