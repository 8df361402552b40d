// dies: granary: double free
// operator delete twice on one object.
#include <new>

#include "../check.h"

int main() {
  auto* number = new long(7);
  void* again = Hide(number);
  delete static_cast<long*>(Hide(number));
  ::operator delete(again);
}
