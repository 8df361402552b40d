// dies: granary: sized free of 41 bytes at 0x
// env: GRANARY_CONF=hardened:true
// The size of a sized delete differs by one byte.
#include <new>

#include "../check.h"

int main() {
  void* block = ::operator new(40);
  ::operator delete(Hide(block), HideSize(41));
}
