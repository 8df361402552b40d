// What the library writes with memset and memcpy: in the simulated heap, the pages become resident
// and nothing is written. The linker leads these calls here (--wrap).
#include <cstddef>

#include "simulate/machine.h"

using granary::simulate::machine;

extern "C" {

void* __real_memset(void* to, int byte, size_t bytes);
void* __real_memcpy(void* to, const void* from, size_t bytes);

void* __wrap_memset(void* to, int byte, size_t bytes) {
  if (!machine.pages.Holds(to)) return __real_memset(to, byte, bytes);
  machine.pages.Touch(to, bytes, machine.node);
  return to;
}

void* __wrap_memcpy(void* to, const void* from, size_t bytes) {
  if (!machine.pages.Holds(to)) return __real_memcpy(to, from, bytes);
  machine.pages.Touch(to, bytes, machine.node);
  return to;
}
}
