// dies: granary: write before an object of 40 bytes
// env: GRANARY_CONF=hardened:true
// One byte before an object is written, where the object before it ends.
#include "../check.h"

int main() {
  char* blocks[64];
  for (char*& block : blocks) {
    block = static_cast<char*>(Hide(malloc(40)));
    CHECK(block != nullptr);
  }
  for (char* block : blocks) {
    for (char* before : blocks) {
      if (before + 48 != block) continue;
      block[-1] = static_cast<char>(block[-1] ^ 1);
      free(Hide(block));
    }
  }
}
