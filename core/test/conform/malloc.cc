// malloc: size zero, alignment by size, full use of every byte, distinct blocks, refusals.
#include <malloc.h>

#include <vector>

#include "../check.h"

namespace {

constexpr size_t kLargest = size_t{64} << 20;

void SizeZeroGivesDistinctBlocks() {
  void* first = malloc(HideSize(0));
  void* second = malloc(HideSize(0));
  CHECK(first != nullptr);
  CHECK(second != nullptr);
  CHECK(first != second);
  free(first);
  free(second);
}

void CheckOneSize(size_t size) {
  void* block = malloc(size);
  CHECK(block != nullptr);
  CHECK(IsAligned(block, PromisedAlignment(size)));
  CHECK(malloc_usable_size(block) >= size);
  FillPattern(block, size, size);
  CHECK(PatternHolds(block, size, size));
  free(block);
}

void EverySizeIsAlignedAndWritable() {
  for (size_t size = 0; size <= 20000; ++size) CheckOneSize(size);
  for (size_t size = 16384; size <= kLargest; size *= 2) {
    for (size_t delta : {size_t{0}, size_t{1}, size / 3, size / 2 + 5}) CheckOneSize(size + delta);
    CheckOneSize(size - 1);
  }
}

void BlocksOfOneSizeDoNotOverlap(size_t size) {
  std::vector<void*> blocks(3000);
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = malloc(size);
    CHECK(blocks[i] != nullptr);
    FillPattern(blocks[i], size, i);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    CHECK(PatternHolds(blocks[i], size, i));
    free(blocks[i]);
  }
}

void TooLargeIsRefusedWithEnomem() {
  const size_t half = SIZE_MAX / 2;
  for (size_t size : {half, half + 1, half + 4096, SIZE_MAX - 4096, SIZE_MAX - 15, SIZE_MAX}) {
    errno = 0;
    CHECK(malloc(HideSize(size)) == nullptr);
    CHECK(errno == ENOMEM);
  }
}

void ARefusalLeavesTheHeapUsable() {
  void* before = malloc(100);
  CHECK(before != nullptr);
  FillPattern(before, 100, 7);
  CHECK(malloc(HideSize(SIZE_MAX - 1)) == nullptr);
  void* after = malloc(100);
  CHECK(after != nullptr && after != before);
  CHECK(PatternHolds(before, 100, 7));
  free(before);
  free(after);
}

void SuccessLeavesErrnoAlone() {
  for (size_t size : {size_t{1}, size_t{5000}, size_t{1} << 20, size_t{40} << 20}) {
    errno = EXDEV;
    void* block = malloc(HideSize(size));
    CHECK(block != nullptr);
    CHECK(errno == EXDEV);
    free(block);
  }
}

}  // namespace

int main() {
  SizeZeroGivesDistinctBlocks();
  EverySizeIsAlignedAndWritable();
  for (size_t size : {1, 8, 9, 16, 24, 48, 100, 160, 1000, 3000, 5000, 20000}) {
    BlocksOfOneSizeDoNotOverlap(size);
  }
  TooLargeIsRefusedWithEnomem();
  ARefusalLeavesTheHeapUsable();
  SuccessLeavesErrnoAlone();
}
