// The slab layer: batches of objects for all CPUs. Small objects are cut from slabs; a medium
// object is a span of the page heap. Each class has one lock. Return checks each address, because
// here its slab is known.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/misuse.h"
#include "base/prefetch.h"
#include "central/bin.h"
#include "central/object_class.h"
#include "os/condition.h"
#include "os/mutex.h"
#include "os/os.h"
#include "pages/metadata.h"
#include "pages/page_map.h"
#include "pages/pages.h"

namespace granary {

struct CentralStats {
  size_t slabs = 0;
  size_t free_objects = 0;  // in slabs
  size_t used_objects = 0;  // live, or cached by the layers above
  size_t partial_slabs = 0;
  size_t clean_bytes = 0;  // in slabs
};

// How full the slab of one object is, and how full the partial slabs of its class are: the slabs
// with a free object.
struct Occupancy {
  const void* slab = nullptr;  // nullptr if the object is in no slab
  size_t objects = 0;          // in a slab of this class, free or not
  size_t bytes = 0;            // of a slab
  size_t free = 0;             // free objects in this slab
  size_t partial_slabs = 0;
  size_t partial_used = 0;  // objects in use in the partial slabs
  size_t slabs = 0;
  bool serves_next = false;  // whether this slab serves the next request
  size_t next_used = 0;      // objects in use in the slab that serves the next request
};

template <Os System, class Pages = PageHeap<System>>
class Central {
 public:
  constexpr Central() = default;
  constexpr Central(PageMap& map, Metadata<System>& metadata, Pages& pages)
      : map_(&map), metadata_(&metadata), pages_(&pages) {}
  void Bind(PageMap& map, Metadata<System>& metadata, Pages& pages) noexcept {
    map_ = &map;
    metadata_ = &metadata;
    pages_ = &pages;
  }

  void Init() noexcept { page_shift_ = static_cast<unsigned>(std::countr_zero(pages_->OsPage())); }

  // For option hardened: the last page of each slab has no object and no access, and new slabs read
  // as zero. Call it after Init and before the first allocation.
  void SetGuards(bool on) noexcept { guard_ = on ? size_t{1} << page_shift_ : 0; }
  size_t ObjectsPerSlab(SizeClass c) const noexcept {
    return (kSlabShape[c].bytes - GuardOf(c)) / kClassSize[c];
  }

  // Fetches up to n objects of class c, lowest address first; returns their number, 0 when the
  // system refuses memory.
  size_t Fetch(SizeClass c, void** to, size_t n) noexcept;
  // Fetches one medium object filled with zeros; nullptr when the system refuses memory.
  void* FetchZeroed(SizeClass c) noexcept;
  // Returns n objects to their slabs. If an address is not an object of class c in use, prints a
  // misuse report and aborts.
  void Return(SizeClass c, void* const* from, size_t n) noexcept;

  // Aborts if p, an address of class c, does not begin an object or is free. `verb` names the call.
  // Takes no lock: the slab of a live object stays, and its bit does not change.
  void RequireUsed(SizeClass c, const void* p, const char* verb) const noexcept;

  // Inspects up to `slabs` queued slabs of class c and releases pages to the system: with
  // kFreePages each page without an object in use, with kIdlePages only pages that were also free
  // at the last inspection. Returns the released bytes.
  enum class Eligible { kFreePages, kIdlePages };
  size_t PurgePages(SizeClass c, size_t slabs, Eligible eligible = Eligible::kIdlePages) noexcept;
  // Hints, read without the lock. Idlest is the class with the maximum of free bytes among the
  // classes with a queued slab.
  size_t SlabsToInspect(SizeClass c) const noexcept { return small_[c].bin.queue_length(); }
  SizeClass Idlest() const noexcept;
  size_t CleanBytes() const noexcept {  // of all classes
    size_t sum = 0;
    for (SizeClass c = 1; c < kNumSmall; ++c) sum += small_[c].bin.clean_bytes();
    return sum;
  }
  size_t FreeBytes(SizeClass c) const noexcept {
    return small_[c].bin.free_objects() * kClassSize[c];
  }

  // Whether p is an object of class c that is not free in its slab.
  bool IsUsed(SizeClass c, const void* p) noexcept;
  CentralStats Stats(SizeClass c) noexcept;
  // p may be any address.
  Occupancy OccupancyAt(const void* p) noexcept;
  // Bytes of pages of slabs released to the system so far.
  size_t released_bytes() const { return released_.load(std::memory_order_relaxed); }
  Mutex<System>& mutex(SizeClass c) {
    return IsSmall(c) ? small_[c].mutex : medium_[c - kNumSmall].mutex;
  }
  // For the child of a fork: objects that a thread of the parent had hidden stay hidden.
  void ForgetHidden() noexcept {
    // A write copies a page that the child shares with its parent: so only where it is needed.
    for (SizeClass c = 0; c < kNumSmall; ++c) {
      if (!small_[c].hides) continue;
      small_[c].hides = false;
      unhidden_[c].Reset();
    }
  }
  void Verify() noexcept;

 private:
  friend struct DescriptorRows;
  struct alignas(kCacheLine) Small {
    Mutex<System> mutex;
    bool hides = false;  // objects are hidden while their pages are released
    Bin bin;
  };
  static_assert(sizeof(Small) <= 192, "a small process touches few of these pages");
  struct alignas(kCacheLine) Medium {
    Mutex<System> mutex;
    std::atomic<size_t> used{0};
  };

  size_t FetchMedium(SizeClass c, void** to, size_t n) noexcept;
  void ReturnMedium(SizeClass c, void* p) noexcept;
  void PrefetchSlabs(SizeClass c, void* const* objects, size_t n) noexcept;
  size_t ReturnSmall(SizeClass c, void* const* from, size_t n, Slab** empty) noexcept;
  bool AwaitHidden(SizeClass c) noexcept;
  // The bytes of the guard at the end of a slab: a page, if that is a small part.
  size_t GuardOf(SizeClass c) const noexcept {
    return kSlabShape[c].bytes >= 8 * guard_ ? guard_ : 0;
  }
  void ClearDirty(const Memory& memory, size_t bytes) noexcept;
  Slab* NewSlab(SizeClass c) noexcept;
  void Retire(Slab* s) noexcept;
  uint64_t CleanPages(uint64_t dirty_granules) const noexcept;
  uint64_t DirtyGranules(const Slab& s) const noexcept;
  size_t Inspect(SizeClass c, Slab* s, Eligible eligible) noexcept;
  bool Surplus(SizeClass c, const Slab& s) const noexcept;
  void Withdraw(SizeClass c, Slab* s) noexcept;
  Slab* CheckedSlab(SizeClass c, void* p) noexcept;

  PageMap* map_ = nullptr;
  Metadata<System>* metadata_ = nullptr;
  Pages* pages_ = nullptr;
  unsigned page_shift_ = 0;
  size_t guard_ = 0;  // an OS page, if slabs end with a guard
  std::atomic<size_t> released_{0};
  Small small_[kNumSmall];
  Condition<System> unhidden_[kNumSmall];  // with the lock of the class
  Medium medium_[kNumClasses - kNumSmall];
};

}  // namespace granary

#include "central/central_impl.h"
