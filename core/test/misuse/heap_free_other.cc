// dies: granary: free of an address that is not of this heap
// malloc's block given to a scoped heap.
#include <granary/heap.h>

#include "../check.h"

#pragma weak granary_heap_create
#pragma weak granary_heap_malloc
#pragma weak granary_heap_free
#pragma weak granary_heap_destroy

int main() {
  granary_heap* heap = granary_heap_create("one", 0);
  granary_heap_free(heap, Hide(malloc(100)));
}
