// dies: granary: write beyond an object of 112 bytes
// env: GRANARY_CONF=hardened:true
// realloc makes an object smaller where it stays; the byte after its new end is written.
#include "../check.h"

int main() {
  char* block = static_cast<char*>(Hide(malloc(100)));
  CHECK(block != nullptr);
  memset(block, 1, 100);
  block = static_cast<char*>(Hide(realloc(block, 98)));
  CHECK(block != nullptr && block[97] == 1);
  block[98] = 0;
  free(Hide(block));
}
