// dies: granary: write beyond an object of 48 bytes
// env: GRANARY_CONF=hardened:true
// One byte beyond an object of a scoped heap is written.
#include <granary/heap.h>

#include "../check.h"

#pragma weak granary_heap_create
#pragma weak granary_heap_malloc
#pragma weak granary_heap_free

int main() {
  granary_heap* const heap = granary_heap_create("one", 0);
  char* const p = static_cast<char*>(Hide(granary_heap_malloc(heap, 37)));
  CHECK(p != nullptr);
  p[37] = 0;
  granary_heap_free(heap, Hide(p));
}
