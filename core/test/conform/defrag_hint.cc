// Active defragmentation as Redis does it: for each object that can move, Redis calls
// je_get_defrag_hint and, if the result says so, moves the object past the caches, until no move
// helps.
#include <jemalloc/jemalloc.h>

#include "check.h"

#pragma weak mallctl
#pragma weak mallocx
#pragma weak dallocx
#pragma weak je_get_defrag_hint
extern "C" int je_get_defrag_hint(void*);

namespace {

constexpr int kFlags = MALLOCX_TCACHE_NONE;
constexpr size_t kCount = 100000, kSize = 200;
void* blocks[kCount];

void Fill() {
  for (void*& p : blocks) p = mallocx(kSize, kFlags), memset(p, 1, kSize);
}

void Empty() {
  for (void*& p : blocks) {
    if (p != nullptr) dallocx(p, kFlags);
    p = nullptr;
  }
}

// Frees all objects from `first` to `end` but one in `step`.
void Thin(size_t first, size_t end, size_t step) {
  for (size_t i = first; i < end; ++i) {
    if (i % step != 0) dallocx(blocks[i], kFlags), blocks[i] = nullptr;
  }
}

size_t Active() {
  uint64_t epoch = 1;
  size_t active = 0, size = sizeof epoch;
  CHECK(mallctl("epoch", &epoch, &size, &epoch, size) == 0);
  CHECK(mallctl("stats.active", &active, &size, nullptr, 0) == 0);
  return active;
}

// One round over the objects from `first` on; returns how many moved.
size_t Move(size_t first) {
  size_t moved = 0;
  for (size_t i = first; i < kCount; ++i) {
    if (blocks[i] == nullptr || je_get_defrag_hint(blocks[i]) == 0) continue;
    void* const q = mallocx(kSize, kFlags);
    memcpy(q, blocks[i], kSize);
    dallocx(blocks[i], kFlags);
    blocks[i] = q;
    ++moved;
  }
  return moved;
}

// Repeats rounds until no object moves. This must happen.
size_t MoveAll(size_t first) {
  size_t moved = 0;
  for (int round = 0; round < 20; ++round) {
    const size_t now = Move(first);
    moved += now;
    if (now == 0) return moved;
  }
  CHECK(!"moving does not come to an end");
  return moved;
}

void NineTenthsFreed() {
  Fill();
  Thin(0, kCount, 10);
  const size_t before = Active(), moved = MoveAll(0), after = Active();
  fprintf(stderr, "nine tenths freed: %zu moved, active %zu -> %zu\n", moved, before, after);
  CHECK(moved > 0 && moved < kCount && after < before / 2);
  Empty();
}

// Half of the slabs hold one object in twenty that cannot move, which lowers the mean of all slabs.
// The objects that can move are in slabs that are half full: above that mean, and still worth
// moving.
void SparseSlabsThatStay() {
  Fill();
  constexpr size_t kMovable = kCount / 2;
  Thin(0, kMovable, 20);
  Thin(kMovable, kCount, 2);
  const size_t before = Active(), moved = MoveAll(kMovable), after = Active();
  fprintf(stderr, "beside slabs that stay: %zu moved, active %zu -> %zu\n", moved, before, after);
  CHECK(moved > 0 && moved < 2 * kCount);
  CHECK(before - after > kMovable * kSize / 2);
  Empty();
}

// Objects that are not in a slab, or in a full slab, stay.
void NothingToGain() {
  void* const large = malloc(3 << 20);
  CHECK(je_get_defrag_hint(large) == 0);
  free(large);
  Fill();
  size_t worth = 0;
  for (void* p : blocks) worth += je_get_defrag_hint(p) != 0;
  CHECK(worth < kCount / 100);
  Empty();
}

}  // namespace

int main() {
  if (OnSystemHeap()) return 0;
  NineTenthsFreed();
  SparseSlabsThatStay();
  NothingToGain();
}
