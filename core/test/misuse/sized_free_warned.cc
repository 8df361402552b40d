// lives: granary: sized free of 5000 bytes
// env: GRANARY_CONF=warn_wrong_size:true
// With warn_wrong_size, free_sized of a 64-byte block with a larger size reports and frees.
#include "../check.h"

extern "C" __attribute__((weak)) void free_sized(void* block, size_t size);

int main() {
  CHECK(free_sized != nullptr);
  void* block = malloc(64);
  CHECK(block != nullptr);
  free_sized(Hide(block), HideSize(5000));
  free(malloc(64));
}
