// dies: granary: malloc_usable_size of an address that Granary did not allocate
// malloc_usable_size of a local variable.
#include <malloc.h>

#include "../check.h"

int main() {
  long local[8] = {};
  return malloc_usable_size(Hide(local)) == 0;
}
