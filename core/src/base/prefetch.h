// Loads a cache line before it is written.
#pragma once

namespace granary {

// Prefetches the cache line of p for writing. p need not be mapped.
inline void PrefetchForWrite(const void* p) {
#if defined(__x86_64__)
  // unless told the CPU, the builtin prefetches for reading only
  __asm__ volatile("prefetchw (%0)" : : "r"(p));
#else
  __builtin_prefetch(p, 1);
#endif
}

}  // namespace granary
