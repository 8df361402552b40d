// aligned_alloc: powers of two up to 64 MiB, sizes that are no multiple of the alignment, invalid
// alignments.
#include <malloc.h>

#include <initializer_list>

#include "../check.h"

namespace {

void CheckOne(size_t alignment, size_t size) {
  void* block = aligned_alloc(alignment, size);
  CHECK(block != nullptr);
  CHECK(IsAligned(block, alignment));
  CHECK(malloc_usable_size(block) >= size);
  FillPattern(block, size, alignment + size);
  CHECK(PatternHolds(block, size, alignment + size));
  free(block);
}

void PowersOfTwoAreServed() {
  for (size_t alignment = 1; alignment <= (size_t{64} << 20); alignment *= 2) {
    for (size_t size : {size_t{1}, size_t{5}, size_t{100}, size_t{4096}, size_t{70001}}) {
      CheckOne(HideSize(alignment), size);
    }
    if (alignment <= (1 << 20)) CheckOne(HideSize(alignment), alignment * 3 + 1);
  }
}

void SizeZeroIsABlock() {
  void* block = aligned_alloc(64, HideSize(0));
  CHECK(block != nullptr);
  CHECK(IsAligned(block, 64));
  free(block);
}

void OtherAlignmentsAreInvalid() {
  for (size_t alignment : {0, 3, 24, 48, 100, 4095}) {
    errno = 0;
    CHECK(aligned_alloc(HideSize(alignment), 8) == nullptr);
    CHECK(errno == EINVAL);
  }
}

void TooLargeIsRefusedWithEnomem() {
  for (size_t alignment : {size_t{16}, size_t{64}, size_t{4096}, size_t{1} << 21}) {
    for (size_t size : {SIZE_MAX / 2, SIZE_MAX - alignment, SIZE_MAX}) {
      errno = 0;
      CHECK(aligned_alloc(HideSize(alignment), HideSize(size)) == nullptr);
      CHECK(errno == ENOMEM);
    }
  }
  errno = 0;
  CHECK(aligned_alloc(HideSize(size_t{1} << 62), HideSize(100)) == nullptr);
  CHECK(errno == ENOMEM);
}

void ManyAtOnceDoNotOverlap() {
  static void* blocks[512];
  for (size_t alignment = 8; alignment <= 8192; alignment *= 2) {
    for (size_t i = 0; i < 512; ++i) {
      blocks[i] = aligned_alloc(alignment, 300);
      CHECK(blocks[i] != nullptr);
      CHECK(IsAligned(blocks[i], alignment));
      FillPattern(blocks[i], 300, i);
    }
    for (size_t i = 0; i < 512; ++i) {
      CHECK(PatternHolds(blocks[i], 300, i));
      free(blocks[i]);
    }
  }
}

}  // namespace

int main() {
  PowersOfTwoAreServed();
  SizeZeroIsABlock();
  if (!OnSystemHeap()) OtherAlignmentsAreInvalid();
  TooLargeIsRefusedWithEnomem();
  ManyAtOnceDoNotOverlap();
}
