// dies: granary: sized free of 64 bytes
// free_sized of an 8 MiB block as if it were a small one.
#include "../check.h"

extern "C" __attribute__((weak)) void free_sized(void* block, size_t size);

int main() {
  CHECK(free_sized != nullptr);
  void* block = malloc(8 << 20);
  CHECK(block != nullptr);
  free_sized(Hide(block), HideSize(64));
}
