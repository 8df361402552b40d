// lives:
// env: GRANARY_CONF=trap_empty:false
// Without the trap an object of no bytes is an ordinary one.
#include <malloc.h>

#include "../check.h"

int main() {
  char* const p = static_cast<char*>(malloc(HideSize(0)));
  CHECK(malloc_usable_size(p) > 0);
  *p = 'A';
  free(p);
}
