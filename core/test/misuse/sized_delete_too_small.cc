// dies: granary: sized free of 8 bytes
// operator delete of a 1,000-byte block as if it were a small object.
#include <new>

#include "../check.h"

int main() {
  void* block = ::operator new(1000);
  ::operator delete(Hide(block), HideSize(8));
}
