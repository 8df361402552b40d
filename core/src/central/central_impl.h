#pragma once

#include "central/central.h"

namespace granary {

template <Os System, class Pages>
size_t Central<System, Pages>::Fetch(SizeClass c, void** to, size_t n) noexcept {
  if (!IsSmall(c)) return FetchMedium(c, to, n);
  Locked hold(mutex(c));
  size_t got = 0;
  while (got < n) {
    Slab* s = small_[c].bin.Fullest();
    if (s == nullptr) {
      if (got > 0) break;  // no new slab only to complete a batch
      s = NewSlab(c);
      if (s == nullptr && AwaitHidden(c)) continue;
      if (s == nullptr) break;
      small_[c].bin.Add(s, page_shift_);
    }
    got += small_[c].bin.Allocate(s, to + got, n - got, page_shift_);
  }
  return got;
}

// For when the system refuses memory; the caller holds the lock. If objects of class c are hidden,
// waits without the lock until the other thread unhides them, and returns true.
template <Os System, class Pages>
bool Central<System, Pages>::AwaitHidden(SizeClass c) noexcept {
  if (!small_[c].hides) return false;
  unhidden_[c].Wait(mutex(c));
  return true;
}

template <Os System, class Pages>
size_t Central<System, Pages>::FetchMedium(SizeClass c, void** to, size_t n) noexcept {
  size_t got = 0;
  for (; got < n; ++got) {
    void* p = pages_->AllocateSpan(kClassSize[c] / kGranule, Density::kSparse).p;
    if (p == nullptr) break;
    map_->SetClass(p, c);
    to[got] = p;
  }
  medium_[c - kNumSmall].used.fetch_add(got, std::memory_order_relaxed);
  return got;
}

template <Os System, class Pages>
void* Central<System, Pages>::FetchZeroed(SizeClass c) noexcept {
  const Memory memory = pages_->AllocateSpan(kClassSize[c] / kGranule, Density::kSparse);
  if (memory.p == nullptr) return nullptr;
  ClearDirty(memory, kClassSize[c]);
  map_->SetClass(memory.p, c);
  medium_[c - kNumSmall].used.fetch_add(1, std::memory_order_relaxed);
  return memory.p;
}

// Fills the granules that may hold old bytes with zeros, up to `bytes`.
template <Os System, class Pages>
void Central<System, Pages>::ClearDirty(const Memory& memory, size_t bytes) noexcept {
  const uint64_t dirty[1] = {memory.dirty};
  for (BitRun run = NextRun(dirty, 0, DivideUp(bytes, kGranule), true); run.count > 0;
       run = NextRun(dirty, run.first + run.count, DivideUp(bytes, kGranule), true)) {
    const size_t from = run.first * kGranule, end = from + run.count * kGranule;
    __builtin_memset(static_cast<char*>(memory.p) + from, 0, (end < bytes ? end : bytes) - from);
  }
}

template <Os System, class Pages>
Slab* Central<System, Pages>::NewSlab(SizeClass c) noexcept {
  auto* const s = static_cast<Slab*>(metadata_->Allocate(Slab::Bytes(c)));
  if (s == nullptr) return nullptr;
  const SlabShape& shape = kSlabShape[c];
  const Memory memory = pages_->AllocateSpan(shape.bytes / kGranule, Density::kDense);
  if (memory.p == nullptr) {
    metadata_->Free(s, Slab::Bytes(c));
    return nullptr;
  }
  if (guard_ != 0) {
    pages_->Unguard(memory.p, shape.bytes - GuardOf(c));
    ClearDirty(memory, shape.bytes - GuardOf(c));
  }
  s->Init(static_cast<char*>(memory.p), c, CleanPages(memory.dirty), ObjectsPerSlab(c));
  map_->SetSlab(memory.p, shape.bytes, c, s);
  return s;
}

// The pages of the granules without a bit in dirty_granules.
template <Os System, class Pages>
uint64_t Central<System, Pages>::CleanPages(uint64_t dirty_granules) const noexcept {
  const unsigned per_granule = 1u << (kGranuleShift - page_shift_);
  uint64_t clean = 0;
  for (unsigned g = 0; g < Slab::kMaxPages / per_granule; ++g) {
    if (((dirty_granules >> g) & 1) == 0) clean |= MaskOf(g * per_granule, per_granule);
  }
  return clean;
}

template <Os System, class Pages>
uint64_t Central<System, Pages>::DirtyGranules(const Slab& s) const noexcept {
  const unsigned per_granule = 1u << (kGranuleShift - page_shift_);
  const unsigned granules = kSlabShape[s.size_class].bytes / kGranule;
  uint64_t dirty = 0;
  for (unsigned g = 0; g < granules; ++g) {
    const uint64_t pages = MaskOf(g * per_granule, per_granule);
    if ((s.clean & pages) != pages) dirty |= uint64_t{1} << g;
  }
  return dirty;
}

template <Os System, class Pages>
Slab* Central<System, Pages>::CheckedSlab(SizeClass c, void* p) noexcept {
  if (ObjectClassAt(*map_, p) == c) return map_->SlabAt(p);
  Die(MisuseReport{Misuse::kDoubleFree, "free", p, kClassSize[c], 0});
}

// Aborts because p, an address inside s, is not an object of s in use.
[[noreturn]] inline void DieOfBadFree(const Slab& s, const void* p, const char* verb) noexcept {
  const SizeClass c = s.size_class;
  const Misuse what = s.IndexOf(p) != Slab::kNoObject ? Misuse::kDoubleFree : Misuse::kUnaligned;
  Die(MisuseReport{what, verb, p, kClassSize[c], 0});
}

template <Os System, class Pages>
void Central<System, Pages>::RequireUsed(SizeClass c, const void* p,
                                         const char* verb) const noexcept {
  if (!IsSmall(c)) {
    if (IsAligned(AddressOf(p), kGranule)) return;
    Die(MisuseReport{Misuse::kUnaligned, verb, p, kClassSize[c], 0});
  }
  const Slab* const s = map_->SlabAt(p);
  if (!PageMap::IsSlab(s)) Die(MisuseReport{Misuse::kDoubleFree, verb, p, kClassSize[c], 0});
  const size_t index = s->IndexOf(p);
  if (index == Slab::kNoObject || s->IsFree(index)) DieOfBadFree(*s, p, verb);
}

// Prefetches the descriptors of the objects' slabs before the lock is held; each object may be in
// another slab.
template <Os System, class Pages>
void Central<System, Pages>::PrefetchSlabs(SizeClass c, void* const* objects, size_t n) noexcept {
  uintptr_t base = 0;
  for (size_t i = 0; i < n; ++i) {
    if (AddressOf(objects[i]) - base < kGranule) continue;
    if (ObjectClassAt(*map_, objects[i]) != c) continue;
    const Slab* const s = map_->SlabAt(objects[i]);
    base = AddressOf(objects[i]) & ~(kGranule - 1);
    PrefetchForWrite(s);
    PrefetchForWrite(s->bits);
  }
}

template <Os System, class Pages>
void Central<System, Pages>::Return(SizeClass c, void* const* from, size_t n) noexcept {
  if (!IsSmall(c)) {
    for (size_t i = 0; i < n; ++i) ReturnMedium(c, from[i]);
    return;
  }
  PrefetchSlabs(c, from, n);
  while (n > 0) {
    Slab* empty = nullptr;
    const size_t done = ReturnSmall(c, from, n, &empty);
    from += done;
    n -= done;
    if (empty != nullptr) Retire(empty);
  }
}

// Returns objects until a slab becomes empty, so that the caller can retire the slab without the
// lock; returns the number of objects. Consecutive objects of one slab need one lookup of the slab
// and one move between its lists.
template <Os System, class Pages>
size_t Central<System, Pages>::ReturnSmall(SizeClass c, void* const* from, size_t n,
                                           Slab** empty) noexcept {
  Locked hold(mutex(c));
  Bin& bin = small_[c].bin;
  for (size_t i = 0; i < n;) {
    Slab* const s = CheckedSlab(c, from[i]);
    const size_t freed = s->Free(from + i, n - i);
    i += freed;
    if (i < n && s->Holds(from[i])) DieOfBadFree(*s, from[i], "free");
    bin.Freed(s, freed);
    if (!Surplus(c, *s)) continue;
    Withdraw(c, s);
    *empty = s;
    return i;
  }
  return n;
}

// Whether s is empty and other slabs have free objects too. The last slab with free objects is
// kept.
template <Os System, class Pages>
bool Central<System, Pages>::Surplus(SizeClass c, const Slab& s) const noexcept {
  return s.free == s.objects && small_[c].bin.free_objects() != s.objects;
}

template <Os System, class Pages>
void Central<System, Pages>::Withdraw(SizeClass c, Slab* s) noexcept {
  small_[c].bin.Remove(s, page_shift_);
  map_->SetSlab(s->base, kSlabShape[c].bytes, kNoClass, nullptr);
}

template <Os System, class Pages>
void Central<System, Pages>::Retire(Slab* s) noexcept {
  const SizeClass c = s->size_class;
  const size_t bytes = kSlabShape[c].bytes;
  const bool gone = guard_ != 0 && pages_->Guard(s->base, bytes);
  pages_->FreeSpan(s->base, bytes / kGranule, gone ? 0 : DirtyGranules(*s));
  metadata_->Free(s, Slab::Bytes(c));
}

template <Os System, class Pages>
void Central<System, Pages>::ReturnMedium(SizeClass c, void* p) noexcept {
  const size_t size = kClassSize[c];
  if (!IsAligned(AddressOf(p), kGranule)) {
    Die(MisuseReport{Misuse::kUnaligned, "free", p, size, 0});
  }
  {
    Locked hold(mutex(c));
    if (ObjectClassAt(*map_, p) != c) Die(MisuseReport{Misuse::kDoubleFree, "free", p, size, 0});
    map_->SetClass(p, kNoClass);
  }
  medium_[c - kNumSmall].used.fetch_sub(1, std::memory_order_relaxed);
  pages_->FreeSpan(p, size / kGranule, ~uint64_t{0});
}

template <Os System, class Pages>
size_t Central<System, Pages>::PurgePages(SizeClass c, size_t slabs, Eligible eligible) noexcept {
  size_t released = 0;
  for (size_t i = 0; i < slabs; ++i) {
    mutex(c).Lock();
    Slab* const s = small_[c].bin.NextToInspect();
    if (s != nullptr) released += Inspect(c, s, eligible);
    // Other threads may have returned the last objects of s while some objects were hidden.
    const bool empty = s != nullptr && Surplus(c, *s);
    if (empty) Withdraw(c, s);
    mutex(c).Unlock();
    if (empty) Retire(s);
    if (s == nullptr) break;
  }
  return released;
}

template <Os System, class Pages>
SizeClass Central<System, Pages>::Idlest() const noexcept {
  SizeClass idlest = kNoClass;
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    if (SlabsToInspect(c) > 0 && FreeBytes(c) > FreeBytes(idlest)) idlest = c;
  }
  return idlest;
}

// The caller holds the lock. Inspect unlocks while it releases pages; until it locks again the
// objects on these pages are hidden.
template <Os System, class Pages>
size_t Central<System, Pages>::Inspect(SizeClass c, Slab* s, Eligible eligible) noexcept {
  Bin& bin = small_[c].bin;
  const uint64_t free = s->FreePages(page_shift_);
  const uint64_t release = eligible == Eligible::kFreePages ? free : free & s->idle;
  s->idle = free & ~release;
  if (s->idle != 0) bin.Enqueue(s);
  if (release == 0) return 0;
  bin.Hide(s, release, page_shift_);
  small_[c].hides = true;
  mutex(c).Unlock();
  const uint64_t pages[1] = {release};
  uint64_t released = 0;
  pages_->SplitHugeAt(s->base + (static_cast<size_t>(std::countr_zero(release)) << page_shift_));
  for (BitRun run = NextRun(pages, 0, 64, true); run.count > 0;
       run = NextRun(pages, run.first + run.count, 64, true)) {
    char* const p = s->base + (run.first << page_shift_);
    if (System::Purge(p, run.count << page_shift_)) {
      released |= MaskOf(static_cast<unsigned>(run.first), static_cast<unsigned>(run.count));
    }
  }
  mutex(c).Lock();
  bin.MarkClean(s, released, page_shift_);
  small_[c].hides = false;
  unhidden_[c].NotifyAll();
  bin.Unhide(s, release, page_shift_);
  const size_t bytes = static_cast<size_t>(std::popcount(released)) << page_shift_;
  released_.fetch_add(bytes, std::memory_order_relaxed);
  return bytes;
}

template <Os System, class Pages>
bool Central<System, Pages>::IsUsed(SizeClass c, const void* p) noexcept {
  Locked hold(mutex(c));
  if (ObjectClassAt(*map_, p) != c) return false;
  if (!IsSmall(c)) return IsAligned(AddressOf(p), kGranule);
  const Slab* const s = map_->SlabAt(p);
  const size_t index = s->IndexOf(p);
  return index != Slab::kNoObject && !s->IsFree(index);
}

template <Os System, class Pages>
Occupancy Central<System, Pages>::OccupancyAt(const void* p) noexcept {
  const SizeClass c = ObjectClassAt(*map_, p);
  Occupancy o;
  if (c == kNoClass || !IsSmall(c)) return o;
  Locked hold(mutex(c));
  if (ObjectClassAt(*map_, p) != c) return o;
  const Slab* const s = map_->SlabAt(p);
  const Bin& bin = small_[c].bin;
  const Slab* const next = bin.Fullest();
  o.slab = s->base;
  o.objects = s->objects;
  o.bytes = kSlabShape[c].bytes;
  o.free = s->free;
  o.slabs = bin.slabs();
  o.partial_slabs = bin.partial_slabs();
  o.partial_used = o.partial_slabs * s->objects - bin.free_objects();
  o.serves_next = s == next;
  o.next_used = next == nullptr ? 0 : size_t{next->objects} - next->free;
  return o;
}

template <Os System, class Pages>
CentralStats Central<System, Pages>::Stats(SizeClass c) noexcept {
  if (!IsSmall(c)) return {0, 0, medium_[c - kNumSmall].used.load(std::memory_order_relaxed), 0, 0};
  Locked hold(mutex(c));
  const Bin& bin = small_[c].bin;
  return {bin.slabs(), bin.free_objects(), bin.slabs() * ObjectsPerSlab(c) - bin.free_objects(),
          bin.partial_slabs(), bin.clean_bytes()};
}

template <Os System, class Pages>
void Central<System, Pages>::Verify() noexcept {
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    Locked hold(mutex(c));
    small_[c].bin.Verify();
  }
}

}  // namespace granary
