// The figures of a heap at one moment, and their descriptions. The rows are in counters.def.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary {

struct Snapshot {
#define COUNTER(name, kind, unit, layer, cell, meaning) uint64_t name = 0;
#include "stats/counters.def"
#undef COUNTER
};

// The objects and slabs of one size class. `live` objects are allocated; the other objects are
// free, in the caches, the depot or slabs. allocations - frees == live / size.
struct ClassFigures {
  uint64_t size = 0;
  uint64_t allocations = 0;
  uint64_t live = 0;  // bytes of objects, as in the fields below
  uint64_t cached = 0;
  uint64_t depot = 0;
  uint64_t slab_free = 0;
  uint64_t slabs = 0;
  uint64_t partial_slabs = 0;
  uint64_t slab_bytes = 0;   // bytes of one slab
  uint64_t clean_bytes = 0;  // bytes of clean pages in all slabs
};

// Used at compile time only. At run time the descriptor holds the same texts without relocations.
struct CounterInfo {
  const char* name;
  const char* kind;
  const char* unit;
  const char* layer;
  const char* cell;
  const char* meaning;
};

inline constexpr CounterInfo kCounters[] = {
#define COUNTER(name, kind, unit, layer, cell, meaning) \
  {#name, #kind, #unit, #layer, cell, meaning},
#include "stats/counters.def"
#undef COUNTER
};

inline constexpr size_t kCounterCount = sizeof kCounters / sizeof kCounters[0];
static_assert(sizeof(Snapshot) == kCounterCount * sizeof(uint64_t));

// The value of the row with this index in counters.def.
inline uint64_t ValueOf(const Snapshot& s, size_t index) {
  uint64_t value;
  __builtin_memcpy(&value, reinterpret_cast<const char*>(&s) + index * sizeof value, sizeof value);
  return value;
}

}  // namespace granary
