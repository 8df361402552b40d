// The figures of a heap at one moment, and their descriptions. Rows stand in counters.def.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary {

struct Snapshot {
#define COUNTER(name, unit, layer, meaning) uint64_t name = 0;
#include "stats/counters.def"
#undef COUNTER
};

struct CounterInfo {
  const char* name;
  const char* unit;
  const char* layer;
  const char* meaning;
  size_t offset;
};

inline constexpr CounterInfo kCounters[] = {
#define COUNTER(name, unit, layer, meaning) \
  {#name, #unit, #layer, meaning, offsetof(Snapshot, name)},
#include "stats/counters.def"
#undef COUNTER
};

inline uint64_t ValueOf(const Snapshot& s, const CounterInfo& info) {
  return *reinterpret_cast<const uint64_t*>(reinterpret_cast<const char*>(&s) + info.offset);
}

}  // namespace granary
