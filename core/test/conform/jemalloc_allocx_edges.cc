// The *allocx functions where size, alignment, arena and cache flags change at once: rallocx across
// arenas and caches, the bounds of xallocx, zeroing in an arena of its own, requests near the top.
#include <initializer_list>

#include "allocx.h"

#pragma weak rallocx
#pragma weak xallocx
#pragma weak sdallocx
#pragma weak nallocx
#pragma weak mallctl

namespace {

// Small, medium, block and huge.
const size_t kSizes[] = {1, 100, 1025, 20000, 300000, 5000000};

unsigned MakeArena() {
  unsigned arena = 0;
  size_t bytes = sizeof arena;
  CHECK(mallctl("arenas.create", &arena, &bytes, nullptr, 0) == 0);
  return arena;
}

void MoveOnce(size_t from, int first, size_t to, int second) {
  Dirty<2>(to, second);
  char* p = static_cast<char*>(mallocx(from, first | MALLOCX_ZERO));
  CHECK(p != nullptr);
  const size_t before = sallocx(p, 0);
  CHECK(All(p, 0, before, 0));
  memset(p, 7, before);
  p = static_cast<char*>(rallocx(p, to, second | MALLOCX_ZERO));
  CHECK(p != nullptr && IsAligned(p, size_t{1} << (second & 63)));
  const size_t after = sallocx(p, 0), common = before < after ? before : after;
  CHECK(after >= to && All(p, 0, common, 7) && All(p, common, after, 0));
  sdallocx(p, to, second);
}

void RallocxZeroesWhereverTheObjectMoves() {
  const int own = MALLOCX_ARENA(MakeArena()) | MALLOCX_TCACHE_NONE;
  for (size_t from : kSizes) {
    for (size_t to : kSizes) {
      for (int lg : {0, 4, 7, 13}) {
        const int align = MALLOCX_LG_ALIGN(lg);
        MoveOnce(from, 0, to, align);
        MoveOnce(from, MALLOCX_TCACHE_NONE, to, align);
        MoveOnce(from, 0, to, align | MALLOCX_TCACHE_NONE);
        MoveOnce(from, own, to, align | own);
        MoveOnce(from, own, to, align);
        MoveOnce(from, 0, to, align | own);
      }
    }
  }
}

// The size after xallocx lies between what was held or asked and what size + extra rounds up to;
// a size or an extra beyond the largest class is a bound, not an error.
void XallocxStaysInItsBounds() {
  for (size_t held : kSizes) {
    for (size_t size : kSizes) {
      for (size_t extra : {size_t{0}, size_t{1}, size, SIZE_MAX - size}) {
        char* const p = static_cast<char*>(mallocx(held, 0));
        CHECK(p != nullptr);
        const size_t before = sallocx(p, 0);
        memset(p, 7, before);
        const size_t after = xallocx(p, size, HideSize(extra), MALLOCX_ZERO);
        CHECK(after == sallocx(p, 0));
        const size_t top = nallocx(HideSize(size + extra), 0);
        CHECK(top == 0 || after <= top || after <= before);
        CHECK(after >= before || after >= size);
        CHECK(All(p, 0, before < after ? before : after, 7) && All(p, before, after, 0));
        dallocx(p, 0);
      }
    }
    void* const p = mallocx(held, 0);
    const size_t before = sallocx(p, 0);
    CHECK(xallocx(p, HideSize(SIZE_MAX), 0, 0) >= before);
    CHECK(xallocx(p, before, 0, 0) == sallocx(p, 0));
    dallocx(p, 0);
  }
}

void RequestsNearTheTopAreRefusedAndKeepTheObject() {
  char* const p = static_cast<char*>(mallocx(100, 0));
  memset(p, 7, 100);
  for (size_t below = 0; below < 20000; below += 97) {
    for (int flags : {0, MALLOCX_ZERO, MALLOCX_ALIGN(64), MALLOCX_LG_ALIGN(21)}) {
      const size_t size = HideSize(SIZE_MAX - below);
      CHECK(nallocx(size, flags) == 0 && mallocx(size, flags) == nullptr);
      CHECK(rallocx(p, size, flags) == nullptr && All(p, 0, 100, 7));
    }
  }
  const int half = MALLOCX_LG_ALIGN(63);
  CHECK(mallocx(HideSize(~(SIZE_MAX >> 1)), half) == nullptr && mallocx(1, half) == nullptr);
  CHECK(rallocx(p, 1, half) == nullptr && All(p, 0, 100, 7));
  dallocx(p, 0);
}

}  // namespace

int main() {
  if (OnSystemHeap()) return 0;
  RallocxZeroesWhereverTheObjectMoves();
  XallocxStaysInItsBounds();
  RequestsNearTheTopAreRefusedAndKeepTheObject();
}
