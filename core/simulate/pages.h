// The address space of a simulated heap: which of its pages are resident. No byte of it is mapped,
// so an access that the simulation does not know of ends it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace granary::simulate {

struct PageCounts {
  uint64_t resident = 0, peak = 0;  // pages of 4 KiB
  uint64_t faults = 0;              // of small pages and of huge ones
  uint64_t huge_faults = 0;
  uint64_t purged = 0;
  uint64_t refaulted = 0;  // touched again after a purge
};

class Pages {
 public:
  static constexpr size_t kPage = kMinOsPage;
  static constexpr size_t kPerRegion = kTrackerBytes / kPage;

  // False if the system refuses the address space.
  bool Start(bool huge_pages, unsigned nodes) noexcept;

  bool Holds(const void* p) const noexcept { return AddressOf(p) - base_ < kSpace; }
  // nullptr when the space is used up. As the kernel does, the space begins at the hint if that is
  // free, and otherwise below what was reserved last.
  void* Reserve(size_t bytes, size_t alignment, void* hint) noexcept;
  void Unmap(void* p, size_t bytes) noexcept;
  // The program or the allocator accesses [p, p+bytes), on a CPU of `node`.
  void Touch(const void* p, size_t bytes, unsigned node) noexcept {
    if (bytes == 0) return;
    const size_t first = (AddressOf(p) - base_) / kPage;
    const size_t last = (AddressOf(p) + bytes - 1 - base_) / kPage;
    if (first == last && IsResident(first)) return;
    TouchPages(first, last, node);
  }
  void Purge(void* p, size_t bytes) noexcept;
  // Whether the range may have huge pages from now on.
  void AllowHuge(void* p, size_t bytes, bool allow) noexcept;
  void SplitHuge(void* p) noexcept;
  void Move(void* from, size_t bytes, void* to) noexcept;

  const PageCounts& counts() const noexcept { return counts_; }
  uint64_t resident_bytes() const noexcept { return counts_.resident * kPage; }
  // The node on which the page of p was touched first.
  unsigned NodeOf(const void* p) const noexcept {
    return nodes_ == nullptr ? 0 : nodes_[(AddressOf(p) - base_) / kPage];
  }

 private:
  static constexpr size_t kSpace = 4 * kTiB;
  static constexpr size_t kWords = kPerRegion / 64;

  struct Region {
    std::array<uint64_t, kWords> resident;
    std::array<uint64_t, kWords> purged;  // since they were resident
    uint16_t count;                       // of resident pages
    bool may_be_huge;
    bool small;  // has a table of small pages, so that the next fault makes no huge page
  };

  Region& RegionOf(size_t page) const noexcept { return regions_[page / kPerRegion]; }
  bool IsResident(size_t page) const noexcept {
    return ((RegionOf(page).resident[page % kPerRegion / 64] >> (page % 64)) & 1) != 0;
  }
  void TouchPages(size_t first, size_t last, unsigned node) noexcept;
  void TouchWord(Region& r, size_t word, uint64_t mask) noexcept;
  void FaultHuge(Region& r) noexcept;
  template <class Act>
  void ForPages(size_t first, size_t last, Act&& act) noexcept;
  uint64_t Drop(Region& r, size_t word, uint64_t mask) noexcept;
  void NoteNode(size_t first, size_t last, unsigned node) noexcept;

  uintptr_t base_ = ~uintptr_t{0};
  uintptr_t top_ = 0;  // reserved from here on
  Region* regions_ = nullptr;
  uint8_t* nodes_ = nullptr;  // only on a machine of several nodes
  bool huge_pages_ = false;
  PageCounts counts_;
};

}  // namespace granary::simulate
