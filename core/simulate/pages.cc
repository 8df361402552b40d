#include "simulate/pages.h"

#include <sys/mman.h>

#include <bit>

#include "base/bits.h"

namespace granary::simulate {
namespace {

void* MapZeroed(size_t bytes, int access) {
  void* const p = mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

}  // namespace

bool Pages::Start(bool huge_pages, unsigned nodes) noexcept {
  void* const space = MapZeroed(kSpace + kTrackerBytes, PROT_NONE);
  regions_ = static_cast<Region*>(
      MapZeroed(kSpace / kTrackerBytes * sizeof(Region), PROT_READ | PROT_WRITE));
  if (nodes > 1) nodes_ = static_cast<uint8_t*>(MapZeroed(kSpace / kPage, PROT_READ | PROT_WRITE));
  if (space == nullptr || regions_ == nullptr || (nodes > 1 && nodes_ == nullptr)) return false;
  base_ = RoundUp(AddressOf(space), kTrackerBytes);
  top_ = base_ + kSpace;
  huge_pages_ = huge_pages;
  return true;
}

void* Pages::Reserve(size_t bytes, size_t alignment, void* hint) noexcept {
  const uintptr_t wish = AddressOf(hint);
  if (bytes > top_ - base_) return nullptr;
  uintptr_t at = RoundDown(top_ - bytes, alignment);
  if (hint != nullptr && wish >= base_ && wish <= at && IsAligned(wish, alignment)) at = wish;
  if (at < base_) return nullptr;
  top_ = at;
  return reinterpret_cast<void*>(at);
}

// Calls act(region, word, mask) for the pages from `first` to `last`, 64 of them at a time.
template <class Act>
void Pages::ForPages(size_t first, size_t last, Act&& act) noexcept {
  ForWords(first, last - first + 1,
           [&](size_t word, uint64_t mask) { act(regions_[word / kWords], word % kWords, mask); });
}

void Pages::FaultHuge(Region& r) noexcept {
  for (size_t w = 0; w < kWords; ++w) {
    counts_.refaulted += static_cast<uint64_t>(std::popcount(r.purged[w]));
    r.purged[w] = 0;
    r.resident[w] = ~uint64_t{0};
  }
  r.count = kPerRegion;
  counts_.resident += kPerRegion;
  ++counts_.huge_faults;
}

void Pages::TouchWord(Region& r, size_t word, uint64_t mask) noexcept {
  const uint64_t fresh = mask & ~r.resident[word];
  if (fresh == 0) return;
  if (huge_pages_ && r.may_be_huge && !r.small && r.count == 0) return FaultHuge(r);
  const auto count = static_cast<uint16_t>(std::popcount(fresh));
  counts_.refaulted += static_cast<uint64_t>(std::popcount(fresh & r.purged[word]));
  r.purged[word] &= ~fresh;
  r.resident[word] |= fresh;
  r.small = true;
  r.count = static_cast<uint16_t>(r.count + count);
  counts_.resident += count;
  counts_.faults += count;
}

void Pages::TouchPages(size_t first, size_t last, unsigned node) noexcept {
  if (nodes_ != nullptr) NoteNode(first, last, node);
  ForPages(first, last,
           [this](Region& r, size_t word, uint64_t mask) { TouchWord(r, word, mask); });
  if (counts_.resident > counts_.peak) counts_.peak = counts_.resident;
}

void Pages::NoteNode(size_t first, size_t last, unsigned node) noexcept {
  for (size_t page = first; page <= last; ++page) {
    const Region& r = RegionOf(page);
    if (IsResident(page)) continue;
    nodes_[page] = static_cast<uint8_t>(node);
    if (!huge_pages_ || !r.may_be_huge || r.small || r.count != 0) continue;
    const size_t start = RoundDown(page, kPerRegion);
    for (size_t i = 0; i < kPerRegion; ++i) nodes_[start + i] = static_cast<uint8_t>(node);
  }
}

// Returns the pages that were resident.
uint64_t Pages::Drop(Region& r, size_t word, uint64_t mask) noexcept {
  const uint64_t gone = r.resident[word] & mask;
  r.resident[word] &= ~gone;
  r.count = static_cast<uint16_t>(r.count - std::popcount(gone));
  counts_.resident -= static_cast<uint64_t>(std::popcount(gone));
  return gone;
}

// A part of a huge page leaves a table of small pages; a purge of the whole region removes it.
void Pages::Purge(void* p, size_t bytes) noexcept {
  const size_t first = (AddressOf(p) - base_) / kPage;
  const size_t last = first + DivideUp(bytes, kPage) - 1;
  ForPages(first, last, [this](Region& r, size_t word, uint64_t mask) {
    const uint64_t gone = Drop(r, word, mask);
    r.purged[word] |= gone;
    r.small = true;
    counts_.purged += static_cast<uint64_t>(std::popcount(gone));
  });
  const size_t end = (last + 1) / kPerRegion;
  for (size_t i = DivideUp(first, kPerRegion); i < end; ++i) regions_[i].small = false;
}

void Pages::Unmap(void* p, size_t bytes) noexcept {
  const size_t first = (AddressOf(p) - base_) / kPage;
  ForPages(first, first + bytes / kPage - 1, [this](Region& r, size_t word, uint64_t mask) {
    Drop(r, word, mask);
    r.purged[word] &= ~mask;
    r.small = r.may_be_huge = false;
  });
  if (AddressOf(p) == top_) top_ += bytes;
}

void Pages::AllowHuge(void* p, size_t bytes, bool allow) noexcept {
  const size_t first = (AddressOf(p) - base_) / kTrackerBytes;
  for (size_t i = 0; i < bytes / kTrackerBytes; ++i) regions_[first + i].may_be_huge = allow;
}

void Pages::SplitHuge(void* p) noexcept { RegionOf((AddressOf(p) - base_) / kPage).small = true; }

void Pages::Move(void* from, size_t bytes, void* to) noexcept {
  const size_t source = (AddressOf(from) - base_) / kPage;
  const size_t target = (AddressOf(to) - base_) / kPage;
  ForPages(target, target + bytes / kPage - 1,
           [this](Region& r, size_t word, uint64_t mask) { Drop(r, word, mask); });
  for (size_t i = 0; i < bytes / kPage; ++i) {
    if (!IsResident(source + i)) continue;
    Region& r = RegionOf(target + i);
    r.resident[(target + i) % kPerRegion / 64] |= uint64_t{1} << ((target + i) % 64);
    r.small = RegionOf(source + i).small;
    ++r.count;
    ++counts_.resident;
    if (nodes_ != nullptr) nodes_[target + i] = nodes_[source + i];
    Drop(RegionOf(source + i), (source + i) % kPerRegion / 64, uint64_t{1} << ((source + i) % 64));
  }
}

}  // namespace granary::simulate
