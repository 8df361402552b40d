// dies: granary: free of an address that Granary did not allocate
// operator delete of a local variable.
#include <new>

#include "../check.h"

int main() {
  long local[8] = {};
  ::operator delete(Hide(local));
}
