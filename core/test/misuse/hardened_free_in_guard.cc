// dies: granary: free of an unaligned address
// env: GRANARY_CONF=hardened:true
// The address is in the guard of a slab.
#include <unistd.h>

#include "../check.h"

int main() {
  constexpr size_t kObjects = 4000, kRoom = 48;
  int channel[2];
  CHECK(pipe(channel) == 0);
  char* block = nullptr;
  for (size_t i = 0; i < kObjects; ++i) {
    block = static_cast<char*>(malloc(40));
    CHECK(block != nullptr);
    if (write(channel[1], Hide(block + kRoom), 1) < 0) break;
    char byte;
    CHECK(read(channel[0], &byte, 1) == 1);
    if (i + 1 == kObjects) free(Hide(block + 16));  // no kernel with guards: any address inside
  }
  free(Hide(block + kRoom + 1024));
}
