/* usable SIZE...: what malloc_usable_size says of a block of each size. None is freed, as
 * glibc maps fewer blocks by themselves once one of them was. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    void* block = malloc(strtoull(argv[i], NULL, 10));
    if (block == NULL) return 1;
    printf("%zu\n", malloc_usable_size(block));
  }
}
