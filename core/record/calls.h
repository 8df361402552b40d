// How a call of any symbol is recorded: once, though the allocator below may implement it by calls
// of further symbols, which arrive here too.
#pragma once

#include "next.h"
#include "recorder.h"
#include "stacks.h"
#include "written.h"

namespace granary::record {

[[gnu::noinline]] inline void RecordWords(Log& log, Kind kind, size_t size, size_t alignment,
                                          void* p) {
  Record(log, p, [&](Words& words, uint64_t ticks) {
    written.Allocated(kind, size, p);
    if (stacks.on()) stacks.Write(words);
    words.Event(kind, size, alignment, p, ticks);
  });
}

[[gnu::noinline]] inline void RecordEnd(Log& log, Kind kind, const void* p) {
  Record(log, p, [&](Words& words, uint64_t ticks) {
    written.Freed(words, p);
    words.Event(kind, 0, 1, p, ticks);
  });
}

inline void RecordAllocation(Log& log, Kind kind, size_t size, size_t alignment, void* p) {
  if (kind == Kind::kAligned || !PutWord(log, kind, size, p))
    RecordWords(log, kind, size, alignment, p);
}

inline void RecordFree(Log& log, Kind kind, const void* p) {
  if (!PutWord(log, kind, 0, p)) RecordEnd(log, kind, p);
}

// Calls the allocator below and records what it returns. `allocate` may throw.
template <class Allocate>
inline void* Allocated(Kind kind, size_t size, size_t alignment, Allocate allocate) {
  Log& l = log;
  l.known = nullptr;
  void* const p = allocate();
  if (!IsSampled(p) || p == nullptr || l.known == p || l.Is(Log::kInside)) return p;
  RecordAllocation(l, kind, size, alignment, p);
  l.known = p;
  return p;
}

// Before a call that frees p. False: nobody records it here.
inline bool Freeing(const void* p) {
  if (!IsSampled(p)) return false;
  Log& l = log;
  if (p == nullptr || l.freeing == p || l.Is(Log::kInside)) return false;
  RecordFree(l, Kind::kFreed, p);
  return true;
}

// Records a free whose implementation may call other symbols that free.
template <class Free>
inline void Freed(const void* p, Free free) {
  const bool outermost = Freeing(p);
  if (outermost) log.freeing = p;
  free();
  if (outermost) log.freeing = nullptr;
}

}  // namespace granary::record
