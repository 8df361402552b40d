#include "arena/arena.h"

#include "arena/serving.h"
#include "layers/layers.h"

namespace granary {

// Adds `bytes` to the live bytes. False, and nothing added, if they would exceed the cap, or with
// option hardened.
bool Arena::Charge(size_t bytes) noexcept {
  const size_t cap = cap_.load(std::memory_order_relaxed);
  if (cap == 0) {
    live_.fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  return !options.hardened && ChargeCapped(bytes);
}

bool Arena::ChargeCapped(size_t bytes) noexcept {
  const size_t own = cap_.load(std::memory_order_relaxed), cap = own == 0 ? kNoCap : own;
  size_t live = live_.load(std::memory_order_relaxed);
  do {
    if (bytes > cap || live > cap - bytes) return false;
  } while (!live_.compare_exchange_weak(live, live + bytes, std::memory_order_relaxed));
  return true;
}

void* Arena::Allocate(size_t size, size_t alignment, bool zero) noexcept {
  const SizeClass c = alignment == 1          ? ClassOf(size)
                      : alignment <= kGranule ? AlignedClassOf(size, alignment)
                                              : kNoClass;
  if (c == kNoClass) return AllocateLarge(size, alignment, zero);
  if (!Charge(kClassSize[c])) {
    return options.hardened ? AllocateSealed(size, alignment, zero) : nullptr;
  }
  void* const p = TakeSmall(c);
  if (p == nullptr) {
    Discharge(kClassSize[c]);
  } else if (zero) {
    __builtin_memset(p, 0, kClassSize[c]);
  }
  return p;
}

void* Arena::TakeSmall(SizeClass c) noexcept {
  Stash& stash = stashes_[c];
  Locked hold(stash.mutex);
  void* p = nullptr;
  if (stash.count > 0) {
    p = stash.objects[--stash.count];
  } else if (const size_t most = stashed[c]; most == 0) {
    if (Refill(c, &p, 1) == 0) return nullptr;
  } else {
    const size_t got = Refill(c, stash.objects, most / 2);
    if (got == 0) return nullptr;
    stash.count = static_cast<uint32_t>(got - 1);
    p = stash.objects[got - 1];
  }
  ++stash.made;
  return p;
}

// Fills `to` with objects from the slabs.
size_t Arena::Refill(SizeClass c, void** to, size_t n) noexcept {
  const Serving me(this);
  const size_t got = central_.Fetch(c, to, n);
  Report();
  return got;
}

// Returns the oldest n objects of the stash to their slabs. The caller holds the lock of the stash.
void Arena::Drain(SizeClass c, size_t n) noexcept {
  Stash& stash = stashes_[c];
  central_.Return(c, stash.objects, n);
  stash.count -= static_cast<uint32_t>(n);
  __builtin_memmove(stash.objects, stash.objects + n, stash.count * sizeof(void*));
}

void Arena::FlushStashes() noexcept {
  for (SizeClass c = 1; c < kNumClasses && stashed[c] > 0; ++c) {
    Locked hold(stashes_[c].mutex);
    if (stashes_[c].count > 0) Drain(c, stashes_[c].count);
  }
}

void* Arena::AllocateLarge(size_t size, size_t alignment, bool zero) noexcept {
  const Serving me(this);
  if (size > kMaxRequest) return nullptr;
  if (size == 0) size = 1;
  const size_t bytes = RoundUp(size, pages_.OsPage());
  if (!ChargeCapped(bytes)) return nullptr;
  const Memory memory =
      pages_.AllocateLarge(size, alignment < kTrackerBytes ? kTrackerBytes : alignment, size);
  if (memory.p == nullptr) {
    Discharge(bytes);
    return nullptr;
  }
  Report();
  if (zero && !memory.Zero()) __builtin_memset(memory.p, 0, size);
  return memory.p;
}

void Arena::Free(void* p) noexcept {
  const SizeClass c = map_.ClassAt(p);
  if (const size_t most = stashed[c]; most > 0) {
    Stash& stash = stashes_[c];
    Locked hold(stash.mutex);
    Discharge(kClassSize[c]);
    if (stash.count < most) {
      stash.objects[stash.count++] = p;
      return;
    }
    const Serving me(this);
    Drain(c, most / 2);
    stash.objects[stash.count++] = p;
  } else {
    FreeUnstashed(c, p);
  }
  const Serving me(this);
  PurgeExcess();
  Report();
}

void Arena::FreeUnstashed(SizeClass c, void* p) noexcept {
  const Serving me(this);
  if (c != kNoClass) {
    const size_t size = IsSealed(c) ? Unseal(c, p) : kClassSize[c];
    central_.Return(c, &p, 1);
    Discharge(size);
  } else if (const size_t large = pages_.LargeSize(p); large != 0) {
    pages_.FreeLarge(p);
    Discharge(large);
  } else {
    DieOf(p, "free");
  }
}

void Arena::DieOf(const void* p, const char* verb) noexcept {
  using Place = PageHeap<Hooked>::Place;
  const Place place = pages_.PlaceOf(p);
  Die(MisuseReport{place == Place::kOutside  ? Misuse::kOtherHeap
                   : place == Place::kInside ? Misuse::kUnaligned
                                             : Misuse::kDoubleFree,
                   verb, p, 0, 0});
}

// The bytes of a new object or block of `size`; 0 if no block can be that large.
size_t Arena::GoodSize(size_t size) noexcept {
  const SizeClass c = ClassOf(size);
  if (c != kNoClass) return kClassSize[c];
  return size > kMaxBlock ? 0 : RoundUp(size, pages_.OsPage());
}

void* Arena::Reallocate(void* p, size_t size) noexcept {
  const size_t before = UsableSize(p, "realloc");
  const size_t good = GoodSize(size);
  if (good == 0) return nullptr;
  const bool sealed = IsSealed(map_.ClassAt(p));
  if (sealed ? Reseal(p, size) : good == before || ResizeInPlace(p, good)) return p;
  void* const q = Allocate(size, 1, false);
  if (q == nullptr) return nullptr;
  __builtin_memcpy(q, p, size < before ? size : before);
  Free(p);
  return q;
}

// Between the ends of decay intervals, dirty memory stays below a quarter of the memory in use.
void Arena::PurgeExcess() noexcept {
  if (decay[0] < 0) return;
  const size_t dirty = pages_.dirty_bytes();
  const size_t quarter = pages_.used_bytes() / 4;
  const size_t bound = decay[0] == 0 ? 0 : quarter > 8 * kMiB ? quarter : 8 * kMiB;
  if (dirty > bound) pages_.PurgeDirty(dirty - bound);
}

size_t Arena::UsableSize(const void* p, const char* verb) noexcept {
  const SizeClass c = map_.ClassAt(p);
  if (IsSealed(c)) return RequireSealed(c, p, verb);
  return c != kNoClass ? kClassSize[c] : pages_.LargeSize(p);
}

bool Arena::ResizeInPlace(void* p, size_t size) noexcept {
  if (map_.ClassAt(p) != kNoClass || size <= kMaxMedium) return false;
  const Serving me(this);
  const size_t before = pages_.LargeSize(p);
  const size_t after = RoundUp(size, pages_.OsPage());
  if (after > before && !ChargeCapped(after - before)) return false;
  const bool done = pages_.ResizeLarge(p, size);
  if (done && after < before) Discharge(before - after);
  if (!done && after > before) Discharge(after - before);
  Report();
  return done;
}

size_t Arena::CountObjects() noexcept {
  const PageStats pages = pages_.Stats();
  size_t count = pages.large_allocations - pages.large_frees;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    Locked hold(stashes_[c].mutex);
    count += central_.Stats(c).used_objects - stashes_[c].count;
  }
  return count;
}

size_t Arena::HeldBytes() noexcept {
  size_t clean = 0;
  for (SizeClass c = 1; c < kNumSmall; ++c) clean += central_.Stats(c).clean_bytes;
  const size_t pages = pages_.used_bytes() + pages_.dirty_bytes();
  return (pages > clean ? pages - clean : 0) + metadata_.used();
}

// When several threads report concurrently, the sums may lack one call; the next call corrects
// them.
void Arena::Report() noexcept {
  const size_t used = pages_.used_bytes(), dirty = pages_.dirty_bytes();
  if (used != reported_used_.load(std::memory_order_relaxed)) {
    layers.arenas().used += used - reported_used_.exchange(used, std::memory_order_relaxed);
  }
  if (dirty != reported_dirty_.load(std::memory_order_relaxed)) {
    layers.arenas().dirty += dirty - reported_dirty_.exchange(dirty, std::memory_order_relaxed);
  }
}

void Arena::Purge(bool all) noexcept {
  const Serving me(this);
  if (!all) {
    pages_.PurgeDue(~size_t{0} / 2);
    return Report();
  }
  FlushStashes();
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    central_.PurgePages(c, central_.SlabsToInspect(c), Central<Hooked>::Eligible::kFreePages);
  }
  pages_.PurgeAll();
  Report();
}

void Arena::EndInterval() noexcept {
  if (decay[0] < 0) return;
  const Serving me(this);
  FlushStashes();
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    central_.PurgePages(c, central_.SlabsToInspect(c));
  }
  pages_.EndInterval();
  pages_.PurgeDue(~size_t{0} / 2);
  Report();
}

Occupancy Arena::OccupancyAt(const void* p) noexcept { return central_.OccupancyAt(p); }

ClassFigures Arena::MeasureClass(SizeClass c) noexcept {
  Locked hold(stashes_[c].mutex);
  const CentralStats central = central_.Stats(c);
  ClassFigures f;
  f.size = kClassSize[c];
  f.allocations = stashes_[c].made;
  f.cached = stashes_[c].count;
  f.live = central.used_objects - f.cached;
  f.slabs = central.slabs;
  f.partial_slabs = central.partial_slabs;
  f.clean_bytes = central.clean_bytes;
  return f;
}

}  // namespace granary
