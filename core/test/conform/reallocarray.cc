// reallocarray: as realloc of the product. A product that overflows is refused, and the object is
// kept.
#include <malloc.h>

#include "../check.h"

namespace {

void GrowsAnArray() {
  void* block = reallocarray(nullptr, 10, HideSize(30));
  CHECK(block != nullptr);
  CHECK(malloc_usable_size(block) >= 300);
  FillPattern(block, 300, 1);
  block = reallocarray(block, HideSize(10000), 30);
  CHECK(block != nullptr);
  CHECK(PatternHolds(block, 300, 1));
  FillPattern(block, 300000, 2);
  CHECK(PatternHolds(block, 300000, 2));
  free(block);
}

void OverflowIsRefusedAndTheBlockKept() {
  void* block = malloc(500);
  CHECK(block != nullptr);
  FillPattern(block, 500, 9);
  const size_t root = size_t{1} << (sizeof(size_t) * 4);
  const size_t pairs[][2] = {{root, root}, {SIZE_MAX, 2}, {3, SIZE_MAX / 2}, {SIZE_MAX, SIZE_MAX}};
  for (const auto& pair : pairs) {
    errno = 0;
    CHECK(reallocarray(Hide(block), HideSize(pair[0]), HideSize(pair[1])) == nullptr);
    CHECK(errno == ENOMEM);
    CHECK(PatternHolds(block, 500, 9));
  }
  free(block);
}

void ZeroProductFrees() {
  void* block = malloc(500);
  CHECK(block != nullptr);
  CHECK(reallocarray(block, HideSize(0), 16) == nullptr);
}

}  // namespace

int main() {
  GrowsAnArray();
  OverflowIsRefusedAndTheBlockKept();
  ZeroProductFrees();
}
