// dies: granary: double free of the block at 0x
// An object of no bytes is freed twice.
#include "../check.h"

int main() {
  void* const p = malloc(HideSize(0));
  free(p);
  free(Hide(p));
}
