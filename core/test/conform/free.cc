// free: accepts null, keeps errno, and freed memory is allocated again.
#include <malloc.h>

#include "../check.h"

namespace {

void NullIsNothing() {
  errno = EXDEV;
  free(Hide(nullptr));
  CHECK(errno == EXDEV);
}

void ErrnoIsPreserved() {
  for (size_t size = 1; size <= (size_t{200} << 20); size = size * 5 + 3) {
    void* block = malloc(size);
    CHECK(block != nullptr);
    static_cast<char*>(block)[size - 1] = 1;
    errno = EXDEV;
    free(block);
    CHECK(errno == EXDEV);
  }
}

void ErrnoIsPreservedOverManyFrees() {
  static void* blocks[20000];
  for (void*& block : blocks) {
    block = malloc(600);
    CHECK(block != nullptr);
  }
  errno = EXDEV;
  for (void* block : blocks) free(block);
  CHECK(errno == EXDEV);
}

// The loop allocates 64 GiB in all. A heap that did not reuse memory would fail.
void FreedMemoryIsUsedAgain() {
  for (int i = 0; i < 4096; ++i) {
    auto* block = static_cast<char*>(malloc(size_t{16} << 20));
    CHECK(block != nullptr);
    block[i] = 1;
    free(block);
  }
}

// Some programs read the body of an object just after they freed it. Granary leaves everything from
// byte 16 on unchanged until the object is allocated again.
void TheBodyOfAFreedBlockStays() {
  auto* block = static_cast<unsigned char*>(malloc(616));
  CHECK(block != nullptr);
  memset(block, 0x6b, 616);
  const auto* body = static_cast<unsigned char*>(Hide(block));
  free(block);
  CHECK(body[32] == 0x6b && body[208] == 0x6b && body[600] == 0x6b);
}

// What a freed object holds means nothing elsewhere: live objects with the same bytes are freed as
// any others, and a program that overwrites freed objects gets distinct, usable objects.
void TheBodyOfAFreedBlockMeansNothing() {
  auto* freed = static_cast<unsigned char*>(malloc(32));
  auto* alike = static_cast<unsigned char*>(malloc(32));
  auto* large = static_cast<unsigned char*>(malloc(127 << 10));
  CHECK(freed != nullptr && alike != nullptr && large != nullptr);
  memset(large, 0xff, 127 << 10);
  free(freed);
  memcpy(alike, Hide(freed), 32);
  memcpy(large, Hide(freed), 32);
  free(alike);
  free(large);
}

void OverwrittenFreedBlocksMisleadNobody() {
  static unsigned char* blocks[64];
  for (auto*& block : blocks) {
    block = static_cast<unsigned char*>(malloc(32));
    CHECK(block != nullptr);
  }
  for (auto* block : blocks) free(block);
  for (size_t i = 0; i < 64; ++i) memset(Hide(blocks[i]), static_cast<int>(0xe1 + i), 32);
  for (size_t i = 0; i < 64; ++i) {
    blocks[i] = static_cast<unsigned char*>(malloc(32));
    CHECK(blocks[i] != nullptr && IsAligned(blocks[i], 16));
    FillPattern(blocks[i], 32, i);
  }
  for (size_t i = 0; i < 64; ++i) {
    CHECK(PatternHolds(blocks[i], 32, i));
    free(blocks[i]);
  }
}

}  // namespace

int main() {
  NullIsNothing();
  ErrnoIsPreserved();
  ErrnoIsPreservedOverManyFrees();
  FreedMemoryIsUsedAgain();
  TheBodyOfAFreedBlockMeansNothing();
  if (OnSystemHeap()) return 0;
  TheBodyOfAFreedBlockStays();
  OverwrittenFreedBlocksMisleadNobody();
}
