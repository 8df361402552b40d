// The *allocx functions and their flags: alignment, zeroing, growth in place, sizes that agree, and
// the same functions with the prefixes.
#include <malloc.h>

#include <initializer_list>

#include "allocx.h"

#pragma weak rallocx
#pragma weak xallocx
#pragma weak sdallocx
#pragma weak nallocx
#pragma weak mallctl
#pragma weak je_mallocx
#pragma weak je_dallocx
#pragma weak je_malloc
#pragma weak je_free
#pragma weak _rjem_mallocx
#pragma weak _rjem_sdallocx

namespace {

const size_t kSizes[] = {1,    8,     9,     16,     17,      100,     1000,    1025,
                         5000, 20000, 65536, 100000, 1000000, 1500000, 3000000, 10000000};

void CheckFlagsAreJemallocs() {
  CHECK(MALLOCX_LG_ALIGN(12) == 12 && MALLOCX_ALIGN(4096) == 12 && MALLOCX_ALIGN(1) == 0);
  CHECK(MALLOCX_ALIGN(size_t{1} << 40) == 40);
  CHECK(MALLOCX_ZERO == 0x40 && MALLOCX_TCACHE_NONE == 0x100 && MALLOCX_TCACHE(0) == 0x200);
  CHECK(MALLOCX_ARENA(0) == 1 << 20 && MALLOCX_ARENA(4094) == static_cast<int>(0xfff00000u));
}

void CheckEverySizeAndAlignment() {
  for (size_t size : kSizes) {
    for (int lg = 0; lg <= 22; lg += 2) {
      for (int more : {0, MALLOCX_ZERO, MALLOCX_TCACHE_NONE, MALLOCX_ZERO | MALLOCX_TCACHE_NONE}) {
        const int flags = MALLOCX_LG_ALIGN(lg) | more;
        char* const p = static_cast<char*>(mallocx(size, flags));
        CHECK(p != nullptr && IsAligned(p, size_t{1} << lg));
        CHECK(sallocx(p, flags) == nallocx(size, flags) &&
              malloc_usable_size(p) == nallocx(size, flags));
        if ((more & MALLOCX_ZERO) != 0) CHECK(All(p, 0, sallocx(p, 0), 0));
        memset(p, 0xee, sallocx(p, flags));
        sdallocx(p, size, flags);
      }
    }
  }
}

void CheckRallocxKeepsZeroesAndAligns() {
  for (size_t size : kSizes) {
    for (int lg : {0, 4, 6, 12}) {
      for (int more : {0, MALLOCX_TCACHE_NONE}) {
        const int flags = MALLOCX_LG_ALIGN(lg) | more;
        Dirty<20>(size * 3, flags);
        char* p = static_cast<char*>(mallocx(size, flags));
        const size_t before = sallocx(p, flags);
        memset(p, 7, before);
        p = static_cast<char*>(rallocx(p, size * 3, flags | MALLOCX_ZERO));
        CHECK(p != nullptr && IsAligned(p, size_t{1} << lg));
        CHECK(All(p, 0, size, 7) && All(p, before, sallocx(p, flags), 0));
        CHECK(sallocx(p, flags) == nallocx(size * 3, flags));
        p = static_cast<char*>(rallocx(p, size, flags));
        CHECK(All(p, 0, size, 7) && sallocx(p, flags) == nallocx(size, flags));
        sdallocx(p, size, flags);
      }
    }
  }
}

// Bytes beyond the request are content where MALLOCX_ZERO is set: they move with the object, and
// what follows the old object is zero.
void CheckRallocxZeroesUpToTheUsableSize() {
  for (size_t size : kSizes) {
    for (size_t next : {size, size / 2 + 1, size * 2}) {
      for (int lg : {0, 4, 6, 12}) {
        Dirty<20>(next, MALLOCX_LG_ALIGN(lg));
        char* p = static_cast<char*>(mallocx(size, MALLOCX_ZERO));
        const size_t before = sallocx(p, 0);
        memset(p, 7, before);
        p = static_cast<char*>(rallocx(p, next, MALLOCX_LG_ALIGN(lg) | MALLOCX_ZERO));
        const size_t after = sallocx(p, 0), common = before < after ? before : after;
        CHECK(All(p, 0, common, 7) && All(p, common, after, 0));
        dallocx(p, 0);
      }
    }
  }
}

void CheckTheLargestExtentIsTheLargestRequest() {
  unsigned extents = 0;
  size_t bytes = sizeof extents, largest = 0;
  CHECK(mallctl("arenas.nlextents", &extents, &bytes, nullptr, 0) == 0);
  char name[64];
  snprintf(name, sizeof name, "arenas.lextent.%u.size", extents - 1);
  bytes = sizeof largest;
  CHECK(mallctl(name, &largest, &bytes, nullptr, 0) == 0);
  CHECK(nallocx(largest, 0) == largest && nallocx(HideSize(largest + 1), 0) == 0);
  CHECK(mallocx(HideSize(largest + 1), 0) == nullptr && malloc(HideSize(largest + 1)) == nullptr);
  void* const p = mallocx(100, 0);
  CHECK(rallocx(p, HideSize(largest + 1), 0) == nullptr);
  CHECK(rallocx(p, HideSize(largest + 1), MALLOCX_ZERO | MALLOCX_ALIGN(64)) == nullptr);
  dallocx(p, 0);
}

void CheckXallocxNeverMoves() {
  for (size_t size : kSizes) {
    char* const p = static_cast<char*>(mallocx(size, 0));
    const size_t before = sallocx(p, 0);
    memset(p, 7, before);
    const size_t after = xallocx(p, size * 2, size, MALLOCX_ZERO);
    CHECK(after == sallocx(p, 0) && after >= before);
    CHECK(All(p, 0, before, 7) && All(p, before, after, 0));
    CHECK(xallocx(p, 1, SIZE_MAX - 10, 0) >= 1);
    dallocx(p, 0);
  }
  void* const large = mallocx(8 << 20, 0);
  CHECK(xallocx(large, 4 << 20, 0, 0) == 4 << 20);
  CHECK(xallocx(large, 2 << 20, 6 << 20, 0) == 8 << 20);
  dallocx(large, 0);
}

void CheckWhatCannotBe() {
  CHECK(mallocx(HideSize(SIZE_MAX / 2), 0) == nullptr);
  CHECK(mallocx(HideSize(SIZE_MAX - 4096), MALLOCX_ALIGN(64)) == nullptr);
  CHECK(nallocx(HideSize(SIZE_MAX), 0) == 0 && nallocx(HideSize(SIZE_MAX), MALLOCX_ALIGN(64)) == 0);
  void* const p = mallocx(100, 0);
  CHECK(rallocx(p, HideSize(SIZE_MAX / 2), 0) == nullptr);
  dallocx(p, 0);
  dallocx(nullptr, 0);
}

}  // namespace

int main() {
  if (OnSystemHeap()) return 0;
  CheckFlagsAreJemallocs();
  CheckEverySizeAndAlignment();
  CheckRallocxKeepsZeroesAndAligns();
  CheckRallocxZeroesUpToTheUsableSize();
  CheckTheLargestExtentIsTheLargestRequest();
  CheckXallocxNeverMoves();
  CheckWhatCannotBe();
  je_dallocx(je_mallocx(100, 0), 0);
  je_free(je_malloc(100));
  free(je_malloc(100));
  _rjem_sdallocx(_rjem_mallocx(100, MALLOCX_ALIGN(64)), 100, MALLOCX_ALIGN(64));
  return 0;
}
