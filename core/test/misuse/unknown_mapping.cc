// dies: granary: free of an address that Granary did not allocate
// free of memory that came from mmap.
#include <sys/mman.h>

#include "../check.h"

int main() {
  void* mapping =
      mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mapping != MAP_FAILED);
  free(Hide(mapping));
}
