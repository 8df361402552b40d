// The quarantine of one CPU: slots for the classes of up to 2 KiB that only threads on that CPU
// exchange, by a restartable sequence: a free neither waits for another CPU nor for its own stores,
// as it would with an atomic exchange.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "arch/rseq.h"
#include "hardened/random.h"
#include "sizes/size_classes.h"

namespace granary::hardened {

namespace internal_shelves {

inline constexpr size_t kWaitingBytes = 16 * kKiB;  // of each class
inline constexpr size_t kMostSlots = 128;
inline constexpr SizeClass kLast = ClassOf(kWaitingBytes / 8);  // with at least eight slots

// A power of two.
constexpr size_t SlotsOf(SizeClass c) {
  const size_t fit = std::bit_floor(kWaitingBytes / kClassSize[c]);
  return fit < kMostSlots ? fit : kMostSlots;
}

// The slots of a class on a shelf.
struct Place {
  uint16_t first = 0, mask = 0;
};
struct Places {
  Place of[kLast + 1];
  size_t slots = 0;
};
consteval Places MakePlaces() {
  Places places;
  for (SizeClass c = 1; c <= kLast; ++c) {
    places.of[c] = {static_cast<uint16_t>(places.slots), static_cast<uint16_t>(SlotsOf(c) - 1)};
    places.slots += SlotsOf(c);
  }
  return places;
}
inline constexpr Places kPlaces = MakePlaces();

}  // namespace internal_shelves

class CpuShelves {
 public:
  // The slots of one CPU.
  struct Shelf {
    Random random;
    uint64_t slots[internal_shelves::kPlaces.slots];
  };

  constexpr CpuShelves() = default;
  static constexpr SizeClass kLast = internal_shelves::kLast;
  static constexpr bool Has(SizeClass c) { return c <= kLast; }

  // Whether the CPU at `index` of the cache table has a shelf.
  bool HasShelf(size_t index) const {
    return shelves_[index].load(std::memory_order_relaxed) != nullptr;
  }
  // False if it has one already. `shelf` is zero.
  bool Add(size_t index, Shelf* shelf) {
    Shelf* none = nullptr;
    return shelves_[index].compare_exchange_strong(none, shelf, std::memory_order_acq_rel);
  }

  // Stores p, an object of class c, which Has, on the shelf of the CPU at `index`, which the caller
  // found to be its own; *out is the object that leaves, or nullptr. False if the CPU has no shelf,
  // its cache is stopped, or the thread has moved.
  GRANARY_ALWAYS_INLINE bool Exchange(size_t index, SizeClass c, void* p, void** out) {
    Shelf* const shelf = shelves_[index].load(std::memory_order_acquire);
    CacheWords* const cache =
        __atomic_load_n(&anchor.cache[kUnregisteredIndices + index], __ATOMIC_ACQUIRE);
    if (shelf == nullptr || cache == anchor.null_cache) [[unlikely]]
      return false;
    const internal_shelves::Place place = internal_shelves::kPlaces.of[c];
    uint64_t* const slot = &shelf->slots[place.first + (shelf->random.Next() & place.mask)];
    const uint64_t old = __atomic_load_n(slot, __ATOMIC_RELAXED);
    // The section finds the slot at its distance from the words of the cache.
    const uint64_t distance = (AddressOf(slot) - AddressOf(cache)) / sizeof(CacheWords);
    if (!arch::CompareStore(cache, distance, old, AddressOf(p))) return false;
    *out = reinterpret_cast<void*>(old);
    return true;
  }

  // Calls visit(c, slot) for each slot. All caches are stopped, or no other thread exists.
  template <class Visit>
  void ForEachSlot(Visit&& visit) {
    for (auto& of_cpu : shelves_) {
      if (Shelf* const shelf = of_cpu.load(std::memory_order_acquire); shelf != nullptr)
        ForEachSlotOf(*shelf, visit);
    }
  }

 private:
  template <class Visit>
  static void ForEachSlotOf(Shelf& shelf, Visit&& visit) {
    for (SizeClass c = 1; Has(c); ++c) {
      const internal_shelves::Place place = internal_shelves::kPlaces.of[c];
      for (size_t i = 0; i <= place.mask; ++i) visit(c, shelf.slots[place.first + i]);
    }
  }

  std::atomic<Shelf*> shelves_[kMaxCpus] = {};
};

}  // namespace granary::hardened
