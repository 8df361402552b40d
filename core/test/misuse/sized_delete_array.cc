// dies: granary: sized free of 640 bytes
// operator delete[] with ten times the size.
#include <new>

#include "../check.h"

int main() {
  void* block = ::operator new[](64);
  ::operator delete[](Hide(block), HideSize(640));
}
