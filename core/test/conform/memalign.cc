// memalign, valloc and pvalloc: the older names, which round up where newer functions refuse.
#include <malloc.h>

#include <initializer_list>

#include "../check.h"

namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

void* CheckBlock(void* block, size_t alignment, size_t size) {
  CHECK(block != nullptr);
  CHECK(IsAligned(block, alignment));
  CHECK(malloc_usable_size(block) >= size);
  FillPattern(block, size, alignment);
  CHECK(PatternHolds(block, size, alignment));
  return block;
}

void MemalignServesPowersOfTwo() {
  for (size_t alignment = 1; alignment <= (size_t{16} << 20); alignment *= 2) {
    free(CheckBlock(memalign(HideSize(alignment), 1000), alignment, 1000));
    free(CheckBlock(memalign(HideSize(alignment), 0), alignment, 0));
  }
}

void MemalignRoundsAlignmentUp() {
  const size_t cases[][2] = {{0, 8}, {3, 4}, {24, 32}, {48, 64}, {100, 128}, {4097, 8192}};
  for (const auto& row : cases) {
    for (int i = 0; i < 50; ++i) free(CheckBlock(memalign(HideSize(row[0]), 8), row[1], 8));
  }
}

void MemalignRefusesTheImpossible() {
  const size_t top = ~(SIZE_MAX >> 1);
  errno = 0;
  CHECK(memalign(HideSize(top + 1), 8) == nullptr);
  CHECK(errno == EINVAL);
  errno = 0;
  CHECK(memalign(HideSize(SIZE_MAX), kPage) == nullptr);
  CHECK(errno == EINVAL);
  errno = 0;
  CHECK(memalign(kPage, HideSize(-kPage)) == nullptr);
  CHECK(errno == ENOMEM);
  errno = 0;
  CHECK(memalign(HideSize(64), HideSize(SIZE_MAX - 10)) == nullptr);
  CHECK(errno == ENOMEM);
}

void VallocIsPageAligned() {
  for (size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4097}, size_t{100000}}) {
    free(CheckBlock(valloc(HideSize(size)), kPage, size));
  }
  errno = 0;
  CHECK(valloc(HideSize(SIZE_MAX)) == nullptr);
  CHECK(errno == ENOMEM);
}

void PvallocGivesWholePages() {
  for (size_t size : {size_t{1}, size_t{4096}, size_t{4097}, size_t{100000}}) {
    const size_t rounded = (size + kPage - 1) / kPage * kPage;
    free(CheckBlock(pvalloc(HideSize(size)), kPage, rounded));
  }
  errno = 0;
  CHECK(pvalloc(HideSize(SIZE_MAX)) == nullptr);
  CHECK(errno == ENOMEM);
  errno = 0;
  CHECK(pvalloc(HideSize(SIZE_MAX - 2)) == nullptr);
  CHECK(errno == ENOMEM);
}

void PvallocOfNothingIsOnePage() { free(CheckBlock(pvalloc(HideSize(0)), kPage, kPage)); }

}  // namespace

int main() {
  MemalignServesPowersOfTwo();
  MemalignRoundsAlignmentUp();
  MemalignRefusesTheImpossible();
  VallocIsPageAligned();
  PvallocGivesWholePages();
  if (!OnSystemHeap()) PvallocOfNothingIsOnePage();
}
