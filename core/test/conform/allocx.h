// What the tests of the *allocx functions share.
#ifndef GRANARY_TEST_CONFORM_ALLOCX_H_
#define GRANARY_TEST_CONFORM_ALLOCX_H_

#include <jemalloc/jemalloc.h>

#include "check.h"

#pragma weak mallocx
#pragma weak sallocx
#pragma weak dallocx

inline bool All(const char* p, size_t from, size_t to, char byte) {
  for (size_t i = from; i < to; ++i) {
    if (p[i] != byte) return false;
  }
  return true;
}

// Leaves free memory that does not read as zero, for objects of this size with these flags.
template <size_t kBlocks>
void Dirty(size_t size, int flags) {
  void* blocks[kBlocks];
  for (void*& p : blocks) {
    p = mallocx(size, flags);
    CHECK(p != nullptr);
    memset(p, 0xee, sallocx(p, flags));
  }
  for (void* p : blocks) dallocx(p, flags);
}

#endif  // GRANARY_TEST_CONFORM_ALLOCX_H_
