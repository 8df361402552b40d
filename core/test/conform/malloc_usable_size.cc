// malloc_usable_size: zero for null, at least the request, constant, and the program may use every
// byte.
#include <malloc.h>

#include <vector>

#include "../check.h"

namespace {

struct Block {
  void* address;
  size_t usable;
};

std::vector<Block> AllocateFull(size_t size, size_t count) {
  std::vector<Block> blocks(count);
  for (size_t i = 0; i < count; ++i) {
    void* address = malloc(size);
    CHECK(address != nullptr);
    blocks[i] = {address, malloc_usable_size(address)};
    CHECK(blocks[i].usable >= size);
    FillPattern(address, blocks[i].usable, i);
  }
  return blocks;
}

void TheWholeUsableSizeMayBeWritten(size_t size) {
  const size_t count = size <= 8192 ? 64 : 4;
  std::vector<Block> blocks = AllocateFull(size, count);
  for (size_t i = 0; i < count; ++i) {
    CHECK(malloc_usable_size(blocks[i].address) == blocks[i].usable);
    CHECK(PatternHolds(blocks[i].address, blocks[i].usable, i));
    free(blocks[i].address);
  }
}

void OneRequestHasOneUsableSize() {
  for (size_t size = 1; size < 40000; size += 97) {
    void* first = malloc(size);
    void* second = malloc(size);
    CHECK(malloc_usable_size(first) == malloc_usable_size(second));
    free(first);
    free(second);
  }
}

// Above 32 KiB, objects consist of whole granules.
#if defined(__aarch64__)
constexpr size_t kGranule = 64 << 10;
#else
constexpr size_t kGranule = 16 << 10;
#endif

void TheSlackIsBounded() {
  for (size_t size = 128; size < (1 << 20); size += size / 5) {
    void* block = malloc(size);
    const size_t slack = size <= (32 << 10) ? size / 4 + 16 : size / 4 + kGranule;
    CHECK(malloc_usable_size(block) <= size + slack);
    free(block);
  }
}

void ReallocToTheUsableSizeKeepsEverything() {
  for (size_t size = 1; size < 200000; size = size * 3 + 1) {
    void* block = malloc(size);
    const size_t usable = malloc_usable_size(block);
    FillPattern(block, usable, size);
    block = realloc(block, usable);
    CHECK(block != nullptr);
    CHECK(PatternHolds(block, usable, size));
    free(block);
  }
}

}  // namespace

int main() {
  CHECK(malloc_usable_size(nullptr) == 0);
  for (size_t size = 0; size <= 2048; ++size) TheWholeUsableSizeMayBeWritten(size);
  for (size_t size = 2048; size <= (size_t{64} << 20); size = size * 3 / 2 + 1) {
    TheWholeUsableSizeMayBeWritten(size);
  }
  OneRequestHasOneUsableSize();
  if (!OnSystemHeap()) TheSlackIsBounded();
  ReallocToTheUsableSizeKeepsEverything();
}
