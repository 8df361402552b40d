// free_sized and free_aligned_sized (C23): null, the requested size, the usable size, all sizes
// between.
#include <malloc.h>

#include <initializer_list>

#include "../check.h"

extern "C" {
__attribute__((weak)) void free_sized(void* block, size_t size);
__attribute__((weak)) void free_aligned_sized(void* block, size_t alignment, size_t size);
}

namespace {

void NullIsNothing() {
  free_sized(nullptr, HideSize(40));
  free_aligned_sized(nullptr, 64, HideSize(40));
}

void SizesFromRequestToUsableAreAccepted() {
  for (size_t size = 0; size <= 3000; ++size) {
    void* block = malloc(size);
    CHECK(block != nullptr);
    free_sized(block, size);
    block = malloc(size);
    free_sized(block, malloc_usable_size(block));
  }
  for (size_t size = 3000; size <= (size_t{32} << 20); size = size * 2 + 11) {
    void* block = malloc(size);
    CHECK(block != nullptr);
    free_sized(block, size);
  }
}

void CallocAndReallocBlocksToo() {
  for (size_t size = 1; size <= (4 << 20); size = size * 3 + 1) {
    free_sized(calloc(1, size), size);
    void* block = realloc(malloc(size * 2), size);
    CHECK(block != nullptr);
    free_sized(block, size);
    block = realloc(malloc(size / 2 + 1), size);
    CHECK(block != nullptr);
    free_sized(block, size);
  }
}

void AlignedBlocks() {
  for (size_t alignment = 8; alignment <= (4 << 20); alignment *= 2) {
    for (size_t size : {size_t{1}, size_t{100}, size_t{5000}, size_t{100000}}) {
      void* block = aligned_alloc(alignment, size);
      CHECK(block != nullptr);
      free_aligned_sized(block, alignment, size);
    }
  }
}

void ErrnoIsPreserved() {
  void* block = malloc(size_t{50} << 20);
  CHECK(block != nullptr);
  errno = EXDEV;
  free_sized(block, size_t{50} << 20);
  CHECK(errno == EXDEV);
}

}  // namespace

int main() {
  if (OnSystemHeap() && free_sized == nullptr) SkipTest("this C library has no free_sized.");
  CHECK(free_sized != nullptr);
  CHECK(free_aligned_sized != nullptr);
  NullIsNothing();
  SizesFromRequestToUsableAreAccepted();
  CallocAndReallocBlocksToo();
  AlignedBlocks();
  ErrnoIsPreserved();
}
