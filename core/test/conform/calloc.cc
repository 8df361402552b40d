// calloc: zeroed memory after frees, products that overflow, otherwise as malloc.
#include <malloc.h>

#include <vector>

#include "../check.h"

namespace {

void DirtyAndFree(size_t size, int count) {
  std::vector<void*> blocks(count);
  for (void*& block : blocks) {
    block = malloc(size);
    CHECK(block != nullptr);
    memset(block, 0xa5, malloc_usable_size(block));
  }
  for (void* block : blocks) free(block);
}

void IsZeroAfterDirtyFrees(size_t size) {
  const int count = size <= 4096 ? 200 : size <= (1 << 20) ? 8 : 2;
  DirtyAndFree(size, count);
  std::vector<void*> blocks(count);
  for (void*& block : blocks) {
    block = calloc(1, size);
    CHECK(block != nullptr);
    CHECK(IsAligned(block, PromisedAlignment(size)));
    CHECK(AllZero(block, size));
    memset(block, 0x5a, size);
  }
  for (void* block : blocks) free(block);
}

void IsZeroAfterABlockOfAnotherSize(size_t freed, size_t wanted) {
  DirtyAndFree(freed, 4);
  void* block = calloc(HideSize(wanted), 1);
  CHECK(block != nullptr);
  CHECK(AllZero(block, wanted));
  free(block);
}

void SizeZeroGivesDistinctBlocks() {
  void* first = calloc(HideSize(0), 8);
  void* second = calloc(8, HideSize(0));
  CHECK(first != nullptr && second != nullptr && first != second);
  free(first);
  free(second);
  for (size_t other : {size_t{0}, size_t{UINT32_MAX}, SIZE_MAX}) {
    free(calloc(HideSize(0), other));
    free(calloc(HideSize(other), 0));
  }
}

void OverflowIsRefusedWithEnomem() {
  const size_t root = size_t{1} << (sizeof(size_t) * 4);
  const size_t pairs[][2] = {{root, root},          {SIZE_MAX, 2},        {2, SIZE_MAX},
                             {SIZE_MAX / 2, 3},     {SIZE_MAX, SIZE_MAX}, {SIZE_MAX / 16 + 2, 16},
                             {SIZE_MAX / 2 + 1, 1}, {1, SIZE_MAX / 2 + 1}};
  for (const auto& pair : pairs) {
    errno = 0;
    CHECK(calloc(HideSize(pair[0]), HideSize(pair[1])) == nullptr);
    CHECK(errno == ENOMEM);
  }
}

void SuccessLeavesErrnoAlone() {
  errno = EXDEV;
  void* block = calloc(1000, HideSize(1000));
  CHECK(block != nullptr);
  CHECK(errno == EXDEV);
  free(block);
}

}  // namespace

int main() {
  for (size_t size = 1; size <= 1100; ++size) IsZeroAfterDirtyFrees(size);
  for (size_t size = 1024; size <= (size_t{64} << 20); size *= 2) {
    IsZeroAfterDirtyFrees(size - 1);
    IsZeroAfterDirtyFrees(size + size / 3);
  }
  for (size_t freed = 4096; freed <= (size_t{16} << 20); freed *= 4) {
    for (size_t wanted = 64; wanted <= (size_t{16} << 20); wanted *= 4) {
      IsZeroAfterABlockOfAnotherSize(freed, wanted);
    }
  }
  SizeZeroGivesDistinctBlocks();
  OverflowIsRefusedWithEnomem();
  SuccessLeavesErrnoAlone();
}
