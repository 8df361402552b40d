// Objects by the batch, for all CPUs: small ones cut from slabs, medium ones spans of the page
// heap. One lock a class. Each returned address is checked here, where its slab is at hand.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/misuse.h"
#include "base/prefetch.h"
#include "central/bin.h"
#include "central/object_class.h"
#include "os/mutex.h"
#include "os/os.h"
#include "pages/metadata.h"
#include "pages/page_map.h"
#include "pages/pages.h"

namespace granary {

struct CentralStats {
  size_t slabs = 0;
  size_t free_objects = 0;  // in slabs
  size_t used_objects = 0;  // handed to the layers above
  size_t partial_slabs = 0;
  size_t clean_bytes = 0;  // in slabs, of pages that hold nothing
};

// How full the slab of one object is, and all slabs of its class that have a free object.
struct Occupancy {
  const void* slab = nullptr;  // nullptr if the object lies in none
  size_t objects = 0;          // that a slab has
  size_t bytes = 0;            // of a slab
  size_t free = 0;             // of them
  size_t partial_slabs = 0;
  size_t partial_used = 0;  // objects in use in the partial slabs
  size_t slabs = 0;
  bool serves_next = false;  // it is the slab that serves the next request
  size_t next_used = 0;      // objects in use in that slab
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

  // Up to n objects of class c, lowest addresses first; 0 when the system refuses memory.
  size_t Fetch(SizeClass c, void** to, size_t n) noexcept;
  // One medium object whose every byte is zero; nullptr when the system refuses memory.
  void* FetchZeroed(SizeClass c) noexcept;
  // Takes back n objects; ends the program if one is not an object of class c in use.
  void Return(SizeClass c, void* const* from, size_t n) noexcept;

  // Looks at up to `slabs` slabs of class c whose objects came back: pages found wholly free, twice
  // in a row where `patience` is kTwoLooks, go to the system. Returns the bytes given back.
  enum class Patience { kNone, kTwoLooks };
  size_t ReleasePages(SizeClass c, size_t slabs, Patience patience = Patience::kTwoLooks) noexcept;
  // Hints, read without the lock; Idlest is the class with the most free bytes in slabs that wait.
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

  // Whether p is an object of class c that no slab counts as free.
  bool IsUsed(SizeClass c, const void* p) noexcept;
  CentralStats Stats(SizeClass c) noexcept;
  // p may be any address.
  Occupancy OccupancyAt(const void* p) noexcept;
  // Bytes of slabs given back to the system so far.
  size_t released_bytes() const { return released_.load(std::memory_order_relaxed); }
  Mutex<System>& mutex(SizeClass c) {
    return IsSmall(c) ? small_[c].mutex : medium_[c - kNumSmall].mutex;
  }
  // In the child of a fork: what other threads had set aside stays so.
  void ForgetHidden() noexcept {
    for (Small& small : small_) {
      if (small.hides) small.hides = false;  // written only where it must be: pages are shared
    }
  }
  void Verify() noexcept;

 private:
  friend struct Layout;
  struct alignas(kCacheLine) Small {
    Mutex<System> mutex;
    bool hides = false;  // objects are set aside while their pages go back
    Bin bin;
  };
  static_assert(sizeof(Small) <= 192, "few pages of these are touched by a small process");
  struct alignas(kCacheLine) Medium {
    Mutex<System> mutex;
    std::atomic<size_t> used{0};
  };

  size_t FetchMedium(SizeClass c, void** to, size_t n) noexcept;
  void ReturnMedium(SizeClass c, void* p) noexcept;
  void FetchSlabs(SizeClass c, void* const* objects, size_t n) noexcept;
  size_t ReturnSmall(SizeClass c, void* const* from, size_t n, Slab** empty) noexcept;
  bool AwaitHidden(SizeClass c) noexcept;
  Slab* NewSlab(SizeClass c) noexcept;
  void Retire(Slab* s) noexcept;
  uint64_t CleanPages(uint64_t dirty_granules) const noexcept;
  uint64_t DirtyGranules(const Slab& s) const noexcept;
  size_t Inspect(SizeClass c, Slab* s, Patience patience) noexcept;
  bool Surplus(SizeClass c, const Slab& s) const noexcept;
  void Withdraw(SizeClass c, Slab* s) noexcept;
  Slab* CheckedSlab(SizeClass c, void* p) noexcept;

  PageMap* map_ = nullptr;
  Metadata<System>* metadata_ = nullptr;
  Pages* pages_ = nullptr;
  unsigned page_shift_ = 0;
  std::atomic<size_t> released_{0};
  Small small_[kNumSmall];
  Medium medium_[kNumClasses - kNumSmall];
};

}  // namespace granary

#include "central/central_impl.h"
