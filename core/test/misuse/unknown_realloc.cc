// dies: granary: realloc of an address that Granary did not allocate
// realloc of a local variable.
#include "../check.h"

int main() {
  long local[8] = {};
  Hide(realloc(Hide(local), 100));
}
