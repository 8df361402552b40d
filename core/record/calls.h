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

// Before a call that frees p, which is sampled. False: nobody records it here.
inline bool FreeingSampled(const void* p) {
  Log& l = log;
  if (p == nullptr || l.freeing == p || l.Is(Log::kInside) || IsEarly(p)) return false;
  RecordFree(l, Kind::kFreed, p);
  return true;
}

// malloc and free, the most frequent calls: an object that is in no sample costs its hash and a
// jump, so what follows has functions of its own, which save the registers that they need.
[[gnu::noinline]] inline void* AllocatedSampled(size_t size, void* p) {
  Log& l = log;
  if (p == nullptr || l.known == p || l.Is(Log::kInside)) return p;
  RecordAllocation(l, Kind::kAllocated, size, 1, p);
  l.known = p;
  return p;
}

[[gnu::noinline]] inline void* AlignedSampled(size_t size, size_t alignment, void* p) {
  Log& l = log;
  if (p == nullptr || l.known == p || l.Is(Log::kInside)) return p;
  RecordAllocation(l, Kind::kAligned, size, alignment, p);
  l.known = p;
  return p;
}

inline void* DirectMalloc(size_t size) {
  log.known = nullptr;
  return direct.malloc(size);
}

inline void* Malloc(size_t size) {
  void* const p = DirectMalloc(size);
  return IsSampled(p) ? AllocatedSampled(size, p) : p;
}

[[gnu::noinline]] inline void FreeSampled(void* p) {
  if (IsEarly(p) || !HasNext()) return;
  FreeingSampled(p);
  next.free(p);
}

inline void Free(void* p) { return IsSampled(p) ? FreeSampled(p) : direct.free(p); }

// Records a free of a sampled object whose implementation may call other symbols that free.
template <class Free>
inline void Freed(const void* p, Free free) {
  const bool outermost = FreeingSampled(p);
  if (outermost) log.freeing = p;
  free();
  if (outermost) log.freeing = nullptr;
}

}  // namespace granary::record
