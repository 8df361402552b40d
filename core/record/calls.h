// How a call of any symbol is recorded: once, though the allocator below may implement it by calls
// of further symbols, which arrive here too.
#pragma once

#include "next.h"
#include "recorder.h"
#include "stacks.h"
#include "written.h"

namespace granary::record {

inline void RecordAllocation(Log& log, Kind kind, size_t size, size_t alignment, void* p) {
  Record(log, p, [=](Encoder& e, uint64_t ticks) {
    written.Allocated(kind, size, p);
    if (stacks.on()) stacks.Write(e);
    e.Allocated(kind, size, alignment, p, ticks);
  });
}

inline void RecordFree(Log& log, Kind kind, const void* p) {
  Record(log, p, [=](Encoder& e, uint64_t ticks) {
    written.Freed(e, p);
    e.Freed(kind, p, ticks);
  });
}

// Not inline, so that a call whose object is not recorded saves no registers for it.
[[gnu::noinline]] inline void* SampledAllocation(Kind kind, size_t size, size_t alignment,
                                                 void* p) {
  Log& l = log;
  if (p == nullptr || l.inside) return p;
  if (l.known != p) RecordAllocation(l, kind, size, alignment, p);
  l.known = p;
  return p;
}

[[gnu::noinline]] inline bool SampledFree(const void* p) {
  Log& l = log;
  if (p == nullptr || l.inside || l.freeing == p) return false;
  RecordFree(l, Kind::kFreed, p);
  return true;
}

// Calls the allocator below and records what it returns. `allocate` may throw.
template <class Allocate>
inline void* Allocated(Kind kind, size_t size, size_t alignment, Allocate allocate) {
  log.known = nullptr;
  void* const p = allocate();
  return IsSampled(p) ? SampledAllocation(kind, size, alignment, p) : p;
}

// Before a call that frees p. False: nobody records it here.
inline bool Freeing(const void* p) { return IsSampled(p) && SampledFree(p); }

// Records a free whose implementation may call other symbols that free.
template <class Free>
inline void Freed(const void* p, Free free) {
  const bool outermost = Freeing(p);
  if (outermost) log.freeing = p;
  free();
  if (outermost) log.freeing = nullptr;
}

}  // namespace granary::record
