// The descriptor of a region, 2 MiB of address space: which granules are in use, which free ones
// are dirty, and the length of its longest free run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "base/treap.h"
#include "base/units.h"

namespace granary {

struct Tracker {
  enum class State : uint8_t {
    kFree,       // no granule in use; part of a run of free trackers
    kSpans,      // cut into spans of granules
    kLargeHead,  // begins a block
    kLargeBody,  // continues a block
    kTransit,    // out of the free runs while the system works on its pages (transit.h)
    kAbandoned,  // its addresses may belong to another mapping: never accessed again (page_moves.h)
  };
  static constexpr size_t kGranules = kGranulesPerTracker;
  static constexpr size_t kWords = DivideUp(kGranules, 64);
  static_assert(kGranules <= 128, "Free is one number");

  char* base = nullptr;
  Tracker* next = nullptr;  // in a list of spans, or of dirty free trackers
  Tracker* prev = nullptr;
  TreapLink<Tracker> by_address, by_size;  // of the run that begins here (free_runs.h)
  uint64_t used[kWords] = {};
  uint64_t dirty[kWords] = {};  // a subset of the free granules
  uint16_t used_count = 0;
  uint16_t dirty_count = 0;
  uint16_t longest = 0;  // granules in the longest free run, while in a list of spans
  uint16_t list = 0;     // the index of the list
  State state = State::kFree;
  bool prepared = false;      // faulted in before it was needed, and not used yet
  bool moved_in = false;      // its pages were moved in from another region once
  bool huge_allowed = false;  // the kernel may back it with a huge page
  bool filled = false;        // the kernel may have done so for its used part (filled_regions.h)
  bool guarded = false;       // committed under a guard: unused memory cannot be accessed
  bool split = false;         // huge pages are off, because parts of it were purged (huge_pages.h)
  uint8_t leaving = 0;        // number of runs after the end of its block that are being purged
  std::atomic<uint32_t> object{0};  // set by the owner of the block (hardened/guarded_blocks.h)
  uint32_t trackers = 0;            // of the run (kFree, its first) or block (kLargeHead)
  size_t bytes = 0;                 // requested by the block, rounded to OS pages (kLargeHead)
  size_t requested = 0;             // requested by the block, exact where known (kLargeHead)

  void BeginUse(State as) {
    state = as;
    prepared = filled = false;
  }

  bool in_use() const {
    return state == State::kSpans || state == State::kLargeHead || state == State::kLargeBody;
  }
  bool MayBeHuge() const { return huge_allowed && !split; }

  void Use(size_t first, size_t count) {
    SetBits(used, first, count);
    used_count = static_cast<uint16_t>(used_count + count);
  }

  // Returns how many of the granules were dirty.
  size_t UseDirty(size_t first, size_t count) {
    const size_t taken = CountBits(dirty, first, count);
    ClearBits(dirty, first, count);
    dirty_count = static_cast<uint16_t>(dirty_count - taken);
    Use(first, count);
    return taken;
  }

  void Unuse(size_t first, size_t count) {
    ClearBits(used, first, count);
    used_count = static_cast<uint16_t>(used_count - count);
  }

  // Returns how many of the granules were dirty.
  size_t ClearDirty() {
    const size_t before = dirty_count;
    ClearBits(dirty, 0, kGranules);
    dirty_count = 0;
    return before;
  }

  void MarkDirty(size_t first, size_t count) {
    const size_t before = CountBits(dirty, first, count);
    SetBits(dirty, first, count);
    dirty_count = static_cast<uint16_t>(dirty_count + count - before);
  }

  // Marks free granules that are not dirty: of the first 64 those with a bit in `those`, and all
  // after them. Returns their number.
  size_t MarkDirty(size_t first, size_t count, uint64_t those) {
    const size_t begin = count < 64 ? count : 64;
    those &= MaskOf(0, static_cast<unsigned>(begin));
    SetBitsAt(dirty, first, those);
    SetBits(dirty, first + begin, count - begin);
    const size_t marked = static_cast<size_t>(std::popcount(those)) + count - begin;
    dirty_count = static_cast<uint16_t>(dirty_count + marked);
    return marked;
  }

  RunSet Free() const {
    Uint128 set = 0;
    for (size_t w = 0; w < kWords; ++w) set |= Uint128{used[w]} << (w * 64);
    return RunSet(~set & (~Uint128{0} >> (128 - kGranules)));
  }

  size_t LongestFree() const {
    size_t longest = 0;
    for (RunSet free = Free(); !free.empty();) {
      const BitRun run = free.TakeLowest();
      if (run.count > longest) longest = run.count;
    }
    return longest;
  }

  // The length of the free run with the free granules [first, first+count).
  size_t FreeAround(size_t first, size_t count) const {
    return FindBit(used, first + count, kGranules, true) - RunBegin(used, first, false);
  }

  // The smallest free run of at least `count` granules, the lowest address first, and the length of
  // the longest other run.
  struct Fit {
    BitRun run;
    size_t other = 0;
  };
  Fit BestFit(size_t count) const {
    Fit fit{{0, kGranules + 1}, 0};
    for (RunSet free = Free(); !free.empty();) {
      BitRun run = free.TakeLowest();
      if (run.count >= count && run.count < fit.run.count) std::swap(run, fit.run);
      if (run.count <= kGranules && run.count > fit.other) fit.other = run.count;
    }
    if (fit.run.count > kGranules) fit.run = {};
    return fit;
  }

  char* Address(size_t granule) const { return base + granule * kGranule; }

  void Verify() const {
    GRANARY_CHECK(CountBits(used, 0, kGranules) == used_count);
    GRANARY_CHECK(CountBits(dirty, 0, kGranules) == dirty_count);
    if (state == State::kSpans) GRANARY_CHECK(longest == LongestFree());
    for (size_t w = 0; w < kWords; ++w) GRANARY_CHECK((used[w] & dirty[w]) == 0);
  }
};

// A list that does not own its trackers.
class TrackerList {
 public:
  Tracker* first() const { return first_; }

  void Push(Tracker* t) {
    t->prev = nullptr;
    t->next = first_;
    if (first_ != nullptr) first_->prev = t;
    first_ = t;
  }

  void Remove(Tracker* t) {
    (t->prev != nullptr ? t->prev->next : first_) = t->next;
    if (t->next != nullptr) t->next->prev = t->prev;
    t->next = t->prev = nullptr;
  }

 private:
  Tracker* first_ = nullptr;
};

}  // namespace granary
