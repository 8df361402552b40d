// dies: granary: write after free: the free object of 112 bytes
// env: GRANARY_CONF=hardened:true
// A freed object is written to; the next use of its memory finds that.
#include "../check.h"

int main() {
  char* block = static_cast<char*>(Hide(malloc(100)));
  CHECK(block != nullptr);
  free(block);
  static_cast<char*>(Hide(block))[50] = 1;
  for (int i = 0; i < 100000; ++i) free(Hide(malloc(100)));
}
