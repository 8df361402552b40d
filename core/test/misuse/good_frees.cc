// lives:
// Good frees of every kind at the end of a program are no misuse.
#include <malloc.h>

#include <new>

#include "../check.h"

int main() {
  for (size_t size = 0; size < (16 << 20); size = size * 2 + 7) {
    free(malloc(size));
    free(calloc(size, 1));
    free(aligned_alloc(4096, size));
    free(realloc(malloc(size), size + 100));
    void* block = ::operator new(size);
    ::operator delete(Hide(block), size);
    block = malloc(size);
    ::operator delete(Hide(block), malloc_usable_size(block));
  }
  free(Hide(nullptr));
}
