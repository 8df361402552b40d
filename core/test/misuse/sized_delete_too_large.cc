// dies: granary: sized free of 4000 bytes
// operator delete of a 64-byte block with the size of another object.
#include <new>

#include "../check.h"

int main() {
  void* block = ::operator new(64);
  ::operator delete(Hide(block), HideSize(4000));
}
