/* A program with heaps of its own: an arena made through mallctl, over the hooks there are, and a
 * scoped heap, both with free memory; prints what lives in them. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kObjects = 60000, kBlocks = 12 };
static void* objects[kObjects];

typedef int Control(const char*, void*, size_t*, void*, size_t);
typedef void* Allocate(size_t, int);
typedef void Deallocate(void*, int);
typedef void* Create(const char*, size_t);
typedef void* HeapAllocate(void*, size_t);

static void* Find(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == NULL) exit(1);
  return found;
}

int main(void) {
  unsigned arena = 0;
  size_t size = sizeof arena;
  if (((Control*)Find("mallctl"))("arenas.create", &arena, &size, NULL, 0) != 0) return 1;
  const int flags = ((int)arena + 1) << 20;
  size_t live = 0;
  for (int i = 0; i < kObjects; ++i) {
    objects[i] = ((Allocate*)Find("mallocx"))(512, flags);
    if (objects[i] == NULL) return 1;
    memset(objects[i], 1, 512);
    live += 512;
  }
  for (int i = 0; i < kObjects; i += 2) {
    ((Deallocate*)Find("dallocx"))(objects[i], flags);
    live -= 512;
  }
  for (int i = 0; i < kBlocks; ++i) {
    void* const block = ((Allocate*)Find("mallocx"))(3 << 20, flags);
    if (block == NULL) return 1;
    memset(block, 1, 3 << 20);
    live += 3 << 20;
  }
  void* const own = ((Create*)Find("granary_heap_create"))("own", 0);
  if (own == NULL) return 1;
  for (int i = 0; i < kObjects; ++i) {
    void* const p = ((HeapAllocate*)Find("granary_heap_malloc"))(own, 256);
    if (p == NULL) return 1;
    memset(p, 1, 256);
    live += 256;
  }
  printf("ready %zu\n", live);
  fflush(stdout);
  pause();
  return 0;
}
