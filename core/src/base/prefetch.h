// Memory that will be written soon, brought near before it is.
#pragma once

namespace granary {

// Asks for the cache line of p for writing. p need not be mapped.
inline void PrefetchForWrite(const void* p) {
#if defined(__x86_64__)
  __asm__ volatile("prefetchw (%0)" : : "r"(p));  // the builtin reads only, unless told of the CPU
#else
  __builtin_prefetch(p, 1);
#endif
}

}  // namespace granary
