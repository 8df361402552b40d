// dies: granary: free of an address that Granary did not allocate
// free of a pointer to a block with a tag in its top bits, by the call.
#include "../check.h"

int main() {
  void* const block = malloc(64);
  CHECK(block != nullptr);
  free(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(Hide(block)) | uintptr_t{0x5a} << 56));
  _exit(0);
}
