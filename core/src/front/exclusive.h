// The operations of arch/rseq.h for a cache that only the calling thread can use: a stopped cache,
// or a shared cache whose lock the thread holds.
#pragma once

#include <cstddef>

#include "front/cache_layout.h"

namespace granary::exclusive {

// Other threads read headers at any time, as a hint.
inline void SetHeader(CacheWords* cache, uint64_t list, uint64_t header) {
  __atomic_store_n(&cache[list], header, __ATOMIC_RELAXED);
}

inline size_t Cursor(const CacheWords* cache, uint64_t c) { return cache[c] & kCursorMask; }

inline size_t PopMany(CacheWords* cache, uint64_t c, void** to, size_t n) {
  size_t k = 0;
  for (size_t at = Cursor(cache, c); k < n && cache[at] != 0; --at) {
    to[k++] = reinterpret_cast<void*>(cache[at]);
  }
  SetHeader(cache, c, cache[c] - k);
  return k;
}

inline size_t PushMany(CacheWords* cache, uint64_t c, void* const* from, size_t n) {
  size_t k = 0;
  for (size_t at = Cursor(cache, c) + 1; k < n && cache[at] != 0; ++at) {
    cache[at] = AddressOf(from[k++]);
  }
  SetHeader(cache, c, cache[c] + k);
  return k;
}

inline void* Pop(CacheWords* cache, SizeClass c) {
  void* p = nullptr;
  if (PopMany(cache, c, &p, 1) == 0) return nullptr;
  SetHeader(cache, c, cache[c] - (uint64_t{1} << kCountShift));
  return p;
}

inline size_t Count(const CacheWords* cache, uint64_t c) {
  size_t count = 0;
  for (size_t at = Cursor(cache, c); cache[at] != 0; --at) ++count;
  return count;
}

}  // namespace granary::exclusive
