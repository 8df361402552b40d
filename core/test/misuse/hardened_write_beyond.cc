// dies: granary: write beyond an object of 48 bytes
// env: GRANARY_CONF=hardened:true
// One byte beyond an object of 37 bytes is written.
#include "../check.h"

int main() {
  char* block = static_cast<char*>(Hide(malloc(37)));
  CHECK(block != nullptr);
  block[37] = 0;
  free(Hide(block));
}
