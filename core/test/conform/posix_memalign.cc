// posix_memalign: the result, errno and the pointer when it succeeds and when it refuses.
#include <malloc.h>

#include <initializer_list>

#include "../check.h"

namespace {

void PowersOfTwoAreServed() {
  for (size_t alignment = sizeof(void*); alignment <= (size_t{32} << 20); alignment *= 2) {
    for (size_t size : {size_t{1}, size_t{33}, size_t{5000}, size_t{300000}}) {
      void* block = nullptr;
      CHECK(posix_memalign(&block, HideSize(alignment), size) == 0);
      CHECK(block != nullptr);
      CHECK(IsAligned(block, alignment));
      CHECK(malloc_usable_size(block) >= size);
      FillPattern(block, size, alignment);
      CHECK(PatternHolds(block, size, alignment));
      free(block);
    }
  }
}

void InvalidAlignmentsGiveEinval() {
  int mark = 0;
  for (size_t alignment : {0, 1, 2, 4, 24, 48, 4097}) {
    void* block = &mark;
    errno = EXDEV;
    CHECK(posix_memalign(&block, HideSize(alignment), 64) == EINVAL);
    CHECK(errno == EXDEV);
    CHECK(block == &mark);
  }
}

void TooLargeGivesEnomem() {
  int mark = 0;
  for (size_t alignment : {size_t{8}, size_t{64}, size_t{1} << 20, size_t{1} << 62}) {
    for (size_t size : {SIZE_MAX / 2, SIZE_MAX - 64, SIZE_MAX}) {
      void* block = &mark;
      errno = 0;
      CHECK(posix_memalign(&block, HideSize(alignment), HideSize(size)) == ENOMEM);
      CHECK(errno == ENOMEM);
      CHECK(block == &mark);
    }
  }
}

void SizeZeroIsABlock() {
  void* block = nullptr;
  CHECK(posix_memalign(&block, 4096, HideSize(0)) == 0);
  CHECK(block != nullptr);
  CHECK(IsAligned(block, 4096));
  free(block);
}

void SuccessLeavesErrnoAlone() {
  void* block = nullptr;
  errno = EXDEV;
  CHECK(posix_memalign(&block, 1 << 16, 1 << 20) == 0);
  CHECK(errno == EXDEV);
  free(block);
}

}  // namespace

int main() {
  PowersOfTwoAreServed();
  InvalidAlignmentsGiveEinval();
  TooLargeGivesEnomem();
  SizeZeroIsABlock();
  SuccessLeavesErrnoAlone();
}
