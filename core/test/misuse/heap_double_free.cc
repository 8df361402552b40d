// dies: granary: double free
// an object of a scoped heap freed twice, found when the heap gives its free memory back.
#include <granary/heap.h>

#include "../check.h"

#pragma weak granary_heap_create
#pragma weak granary_heap_malloc
#pragma weak granary_heap_free
#pragma weak granary_heap_purge

int main() {
  granary_heap* heap = granary_heap_create("one", 0);
  void* block = granary_heap_malloc(heap, 64);
  void* again = Hide(block);
  granary_heap_free(heap, block);
  granary_heap_free(heap, again);
  granary_heap_purge(heap);
}
