// The names that old programs and users of the C library's internals call: __libc_malloc and its
// family, and cfree. Objects from these names and from the public names belong to one heap.
#include <malloc.h>

#include <initializer_list>

#include "../check.h"

extern "C" {
__attribute__((weak)) void* __libc_malloc(size_t size);
__attribute__((weak)) void __libc_free(void* block);
__attribute__((weak)) void* __libc_calloc(size_t count, size_t size);
__attribute__((weak)) void* __libc_realloc(void* block, size_t size);
__attribute__((weak)) void* __libc_memalign(size_t alignment, size_t size);
__attribute__((weak)) void* __libc_valloc(size_t size);
__attribute__((weak)) void* __libc_pvalloc(size_t size);
__attribute__((weak)) void cfree(void* block);
}

namespace {

void Use(void* block, size_t size) {
  CHECK(block != nullptr);
  CHECK(malloc_usable_size(block) >= size);
  FillPattern(block, size, size);
  CHECK(PatternHolds(block, size, size));
}

void PrivateBlocksToPublicFree() {
  for (size_t size : {size_t{24}, size_t{4000}, size_t{3} << 20}) {
    void* blocks[] = {__libc_malloc(size),           __libc_calloc(1, size),
                      __libc_realloc(nullptr, size), __libc_memalign(256, size),
                      __libc_valloc(size),           __libc_pvalloc(size)};
    CHECK(IsAligned(blocks[3], 256));
    CHECK(IsAligned(blocks[4], 4096) && IsAligned(blocks[5], 4096));
    CHECK(AllZero(blocks[1], size));
    for (void* block : blocks) Use(block, size);
    for (void* block : blocks) free(block);
  }
}

void PublicBlocksToPrivateFree() {
  for (size_t size : {size_t{24}, size_t{4000}, size_t{3} << 20}) {
    void* block = malloc(size);
    Use(block, size);
    block = __libc_realloc(block, size * 2);
    Use(block, size * 2);
    __libc_free(block);
  }
  __libc_free(nullptr);
}

void CfreeIsFree() {
  void* block = malloc(100);
  Use(block, 100);
  cfree(block);
  cfree(nullptr);
}

}  // namespace

int main() {
  if (__libc_malloc == nullptr && OnSystemHeap()) SkipTest("this C library has no __libc_malloc.");
  PrivateBlocksToPublicFree();
  PublicBlocksToPrivateFree();
  if (!OnSystemHeap()) CHECK(cfree != nullptr);
  if (!OnSystemHeap()) CfreeIsFree();
}
