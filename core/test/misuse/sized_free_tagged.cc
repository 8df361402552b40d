// dies: granary: sized free of an address that Granary did not allocate
// sized free of a pointer to a block with a tag in its top bits, by the call.
#include <new>

#include "../check.h"

int main() {
  void* const block = ::operator new(64);
  ::operator delete(
      reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(Hide(block)) | uintptr_t{0x5a} << 56),
      HideSize(64));
  _exit(0);
}
