// dies: granary: free of an address that Granary did not allocate
// an object whose scoped heap was destroyed.
#include <granary/heap.h>

#include "../check.h"

#pragma weak granary_heap_create
#pragma weak granary_heap_malloc
#pragma weak granary_heap_free
#pragma weak granary_heap_destroy

int main() {
  granary_heap* heap = granary_heap_create("one", 0);
  void* block = Hide(granary_heap_malloc(heap, 64));
  granary_heap_destroy(heap);
  free(block);
}
