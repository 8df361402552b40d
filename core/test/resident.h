// Resident memory of this process, from the kernel.
#ifndef GRANARY_TEST_RESIDENT_H_
#define GRANARY_TEST_RESIDENT_H_

#include "check.h"

inline size_t ResidentBytes() {
  size_t pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  CHECK(file != nullptr && fscanf(file, "%*u %zu", &pages) == 1);
  fclose(file);
  return pages * static_cast<size_t>(getpagesize());
}

#endif
