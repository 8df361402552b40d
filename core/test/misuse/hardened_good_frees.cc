// lives:
// env: GRANARY_CONF=hardened:true
// Good frees of every kind, with every byte written that malloc_usable_size says is usable.
#include <malloc.h>

#include <new>

#include "../check.h"

static void* Filled(void* block) {
  CHECK(block != nullptr);
  memset(Hide(block), 0xff, malloc_usable_size(block));
  return Hide(block);
}

int main() {
  for (size_t size = 1; size < (16 << 20); size = size * 2 + 7) {
    for (int i = 0; i < 40; ++i) {
      CHECK(malloc_usable_size(Filled(malloc(size))) == size);
      free(Filled(malloc(size)));
      char* zeros = static_cast<char*>(calloc(size, 1));
      CHECK(zeros != nullptr && zeros[0] == 0 && zeros[size - 1] == 0);
      free(Filled(zeros));
      free(Filled(aligned_alloc(4096, size)));
      free(Filled(realloc(Filled(malloc(size)), size + 100)));
      free(Filled(realloc(Filled(malloc(size + 100)), size)));
      void* block = Filled(::operator new(size));
      ::operator delete(Hide(block), size);
    }
  }
  for (int i = 0; i < 200000; ++i) free(Hide(malloc(HideSize(0))));
  free(Hide(nullptr));
}
