// realloc: contents kept over every pair of sizes, null, zero, refusals, the class after a shrink.
#include <malloc.h>

#include <algorithm>
#include <vector>

#include "../check.h"

namespace {

const size_t kSizes[] = {1,     7,      8,      9,       16,      17,      100,     1000,
                         1024,  1025,   4000,   4096,    4097,    10000,   32768,   32769,
                         65536, 100000, 262144, 1000000, 1 << 20, 3 << 20, 8 << 20, 20 << 20};

void ContentsAreKept(size_t from, size_t to) {
  void* block = malloc(from);
  CHECK(block != nullptr);
  FillPattern(block, from, from ^ to);
  void* moved = realloc(block, to);
  CHECK(moved != nullptr);
  CHECK(IsAligned(moved, PromisedAlignment(to)));
  CHECK(malloc_usable_size(moved) >= to);
  CHECK(PatternHolds(moved, std::min(from, to), from ^ to));
  FillPattern(moved, to, 3);
  CHECK(PatternHolds(moved, to, 3));
  free(moved);
}

// Sized frees, and code that compares usable sizes, rely on this: after realloc to n, an object has
// the class of an object from malloc(n).
void TheBlockSitsInTheClassOfItsNewSize(size_t from, size_t to) {
  void* fresh = malloc(to);
  void* moved = realloc(malloc(from), to);
  CHECK(fresh != nullptr && moved != nullptr);
  CHECK(malloc_usable_size(moved) == malloc_usable_size(fresh));
  free(fresh);
  free(moved);
}

void ManyAtOnceKeepTheirContents() {
  std::vector<void*> blocks(1 << 14);
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = malloc(8192);
    CHECK(blocks[i] != nullptr);
    FillPattern(static_cast<char*>(blocks[i]) + 4000, 64, i);
  }
  for (void*& block : blocks) {
    block = realloc(block, 9000);
    CHECK(block != nullptr);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    CHECK(PatternHolds(static_cast<char*>(blocks[i]) + 4000, 64, i));
    free(blocks[i]);
  }
}

void NullIsMalloc() {
  void* block = realloc(nullptr, HideSize(77));
  CHECK(block != nullptr);
  CHECK(malloc_usable_size(block) >= 77);
  free(block);
  block = realloc(nullptr, HideSize(0));
  CHECK(block != nullptr);
  free(block);
}

void ZeroFreesAndGivesNull() {
  for (size_t size : {size_t{0}, size_t{40}, size_t{5000}, size_t{3} << 20}) {
    void* block = malloc(HideSize(size));
    CHECK(block != nullptr);
    errno = EXDEV;
    CHECK(realloc(block, HideSize(0)) == nullptr);
    CHECK(errno == EXDEV);
  }
}

void ZeroReallyFrees() {
  for (int i = 0; i < 4000; ++i) {
    void* block = malloc(size_t{8} << 20);
    CHECK(block != nullptr);
    static_cast<char*>(block)[0] = 1;
    CHECK(realloc(block, HideSize(0)) == nullptr);
  }
}

void HugeIsRefusedAndTheBlockKept() {
  for (size_t from : {size_t{40}, size_t{5000}, size_t{3} << 20}) {
    void* block = malloc(HideSize(from));
    CHECK(block != nullptr);
    FillPattern(block, from, 5);
    for (size_t to : {SIZE_MAX / 2, SIZE_MAX / 2 + 1, SIZE_MAX - 4095, SIZE_MAX}) {
      errno = 0;
      CHECK(realloc(Hide(block), HideSize(to)) == nullptr);
      CHECK(errno == ENOMEM);
    }
    CHECK(PatternHolds(block, from, 5));
    free(block);
  }
}

void AlignedBlocksMayBeReallocated() {
  for (size_t alignment = 16; alignment <= (size_t{1} << 21); alignment *= 2) {
    void* block = nullptr;
    CHECK(posix_memalign(&block, alignment, 3000) == 0);
    FillPattern(block, 3000, alignment);
    void* moved = realloc(block, 300000);
    CHECK(moved != nullptr);
    CHECK(PatternHolds(moved, 3000, alignment));
    free(moved);
  }
}

}  // namespace

int main() {
  for (size_t from : kSizes) {
    for (size_t to : kSizes) {
      ContentsAreKept(from, to);
      if (!OnSystemHeap()) TheBlockSitsInTheClassOfItsNewSize(from, to);
    }
  }
  ManyAtOnceKeepTheirContents();
  NullIsMalloc();
  ZeroFreesAndGivesNull();
  ZeroReallyFrees();
  HugeIsRefusedAndTheBlockKept();
  AlignedBlocksMayBeReallocated();
}
