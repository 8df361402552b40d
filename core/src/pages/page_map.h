// From an address to its owner, without a lock: for each granule the size class of its objects (one
// byte) and their slab, for each 2 MiB the tracker. Two levels: a root with a row for each 4 GiB,
// in zeroed memory, and leaves that are mapped as the heap grows. A root row of zero leads to
// `no_leaf`, whose granules have no class: every address can be looked up.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "arch/add_relaxed.h"
#include "base/compiler.h"
#include "base/units.h"
#include "os/os.h"
#include "sizes/size_classes.h"

namespace granary {

struct Slab;
struct Tracker;

inline constexpr unsigned kLeafShift = 32;
inline constexpr size_t kLeaves = size_t{1} << (kAddressBits - kLeafShift);
inline constexpr size_t kLeafGranules = size_t{1} << (kLeafShift - kGranuleShift);
inline constexpr size_t kLeafTrackers = size_t{1} << (kLeafShift - kTrackerShift);

struct PageMap {
  struct Leaf {
    uint8_t classes[kLeafGranules];
    Slab* slabs[kLeafGranules];
    uint16_t samples[kLeafGranules];  // sampled objects in use that begin there
    Tracker* trackers[kLeafTrackers];
  };

  // Each leaf's address relative to no_leaf.
  std::atomic<uintptr_t> root[kLeaves];
  std::atomic<uint64_t> leaves;  // number; beside the last rows, which most processes touch
  uint8_t no_leaf[kLeafGranules];

  // The class of the objects at p: kNoClass for every address outside slabs and the first granules
  // of medium objects. For an address beyond user space, the class at its low bits.
  GRANARY_ALWAYS_INLINE SizeClass ClassAt(const void* p) const {
    const PageMap* map = this;
    __asm__("" : "+r"(map));  // one register for both levels
    const uintptr_t address = AddressOf(p);
    const uintptr_t row = arch::AddRelaxed(static_cast<uint32_t>(address) >> kGranuleShift,
                                           map->root[(address >> kLeafShift) % kLeaves]);
    return *reinterpret_cast<const uint8_t*>(AddressOf(map->no_leaf) + row);
  }

  // Whether the map has rows at p; the other functions require it.
  bool Covers(const void* p) const {
    const uintptr_t row = AddressOf(p) >> kLeafShift;
    return row < kLeaves && root[row].load(std::memory_order_acquire) != 0;
  }

  Slab* SlabAt(const void* p) const { return LeafOf(p)->slabs[GranuleIndex(p)]; }
  Tracker* TrackerAt(const void* p) const {
    return Covers(p) ? LeafOf(p)->trackers[TrackerIndex(p)] : nullptr;
  }

  void SetClass(const void* p, SizeClass c) {
    LeafOf(p)->classes[GranuleIndex(p)] = static_cast<uint8_t>(c);
  }

  void SetSlab(const void* p, size_t bytes, SizeClass c, Slab* slab) {
    for (size_t at = 0; at < bytes; at += kGranule) {
      const char* granule = static_cast<const char*>(p) + at;
      LeafOf(granule)->slabs[GranuleIndex(granule)] = slab;
      SetClass(granule, c);
    }
  }

  // Records one more sampled object of class c at p: frees of objects that begin in this granule
  // take the slow path, as its class becomes kSampledClass. The object's own class is the slab's,
  // or without a slab is stored in its place. No two of these calls run concurrently.
  void AddSample(const void* p, SizeClass c) {
    Leaf* const leaf = LeafOf(p);
    const size_t g = GranuleIndex(p);
    if (leaf->samples[g]++ > 0) return;
    if (!IsSmall(c)) __atomic_store_n(&leaf->slabs[g], SlabOfClass(c), __ATOMIC_RELAXED);
    __atomic_store_n(&leaf->classes[g], kSampledClass, __ATOMIC_RELEASE);
  }
  void RemoveSample(const void* p, SizeClass c) {
    Leaf* const leaf = LeafOf(p);
    const size_t g = GranuleIndex(p);
    if (--leaf->samples[g] > 0) return;
    __atomic_store_n(&leaf->classes[g], static_cast<uint8_t>(c), __ATOMIC_RELEASE);
    if (!IsSmall(c)) __atomic_store_n(&leaf->slabs[g], SlabOfClass(kNoClass), __ATOMIC_RELAXED);
  }
  static Slab* SlabOfClass(SizeClass c) { return reinterpret_cast<Slab*>(uintptr_t{c}); }
  static bool IsSlab(const Slab* s) { return reinterpret_cast<uintptr_t>(s) >= kMaxClasses; }

  void SetTracker(const void* p, Tracker* tracker) {
    LeafOf(p)->trackers[TrackerIndex(p)] = tracker;
  }

  // Makes rows for [p, p+bytes); false if the system refuses.
  template <Os System>
  bool Cover(void* p, size_t bytes) {
    const uintptr_t first = AddressOf(p) >> kLeafShift;
    const uintptr_t last = (AddressOf(p) + bytes - 1) >> kLeafShift;
    if (last >= kLeaves) return false;
    for (uintptr_t row = first; row <= last; ++row) {
      if (root[row].load(std::memory_order_relaxed) != 0) continue;
      void* leaf = System::Map(RoundUp(sizeof(Leaf), 64 * kKiB), 64 * kKiB, nullptr);
      if (leaf == nullptr) return false;
      System::AllowHuge(leaf, sizeof(Leaf), false);
      leaves.fetch_add(1, std::memory_order_relaxed);
      root[row].store(AddressOf(leaf) - AddressOf(no_leaf), std::memory_order_release);
    }
    return true;
  }

  // Purges the rows of [p, p+bytes), which is unused: they read as zero again. Returns the number
  // of bytes.
  template <Os System>
  size_t PurgeRows(char* p, size_t bytes) {
    constexpr size_t kLeafBytes = size_t{1} << kLeafShift;
    size_t done = 0;
    for (char* const end = p + bytes; p < end;) {
      const size_t to_next = kLeafBytes - AddressOf(p) % kLeafBytes;
      const size_t part =
          static_cast<size_t>(end - p) < to_next ? static_cast<size_t>(end - p) : to_next;
      Leaf* const leaf = LeafOf(p);
      const size_t first = GranuleIndex(p), last = first + part / kGranule;
      done += PurgeWithin<System>(&leaf->slabs[first], &leaf->slabs[0] + last);
      done += PurgeWithin<System>(&leaf->classes[first], &leaf->classes[0] + last);
      p += part;
    }
    return done;
  }

 private:
  // The whole pages between two addresses.
  template <Os System>
  static size_t PurgeWithin(void* from, void* to) {
    const uintptr_t start = RoundUp(AddressOf(from), System::PageSize());
    const uintptr_t end = RoundDown(AddressOf(to), System::PageSize());
    if (start >= end) return 0;
    return System::Purge(reinterpret_cast<void*>(start), end - start) ? end - start : 0;
  }

  Leaf* LeafOf(const void* p) const {
    const uintptr_t offset = root[AddressOf(p) >> kLeafShift].load(std::memory_order_relaxed);
    return reinterpret_cast<Leaf*>(AddressOf(no_leaf) + offset);
  }
  static size_t GranuleIndex(const void* p) {
    return static_cast<uint32_t>(AddressOf(p)) >> kGranuleShift;
  }
  static size_t TrackerIndex(const void* p) {
    return static_cast<uint32_t>(AddressOf(p)) >> kTrackerShift;
  }
};

}  // namespace granary
