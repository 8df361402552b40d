// dies: granary: double free of an object of 48 bytes
// env: GRANARY_CONF=hardened:true
// An object of a scoped heap is freed twice, another between: found in the call.
#include <granary/heap.h>

#include "../check.h"

#pragma weak granary_heap_create
#pragma weak granary_heap_malloc
#pragma weak granary_heap_free

int main() {
  granary_heap* const heap = granary_heap_create("one", 0);
  char* const p = static_cast<char*>(Hide(granary_heap_malloc(heap, 37)));
  CHECK(p != nullptr);
  void* const other = granary_heap_malloc(heap, 37);
  granary_heap_free(heap, p);
  granary_heap_free(heap, other);
  free(Hide(p));
}
