// dies: granary: free of an address that Granary did not allocate
// free of a local variable.
#include "../check.h"

int main() {
  long local[8] = {};
  free(Hide(local));
}
