// A page heap over the fake system, driven by a stream of bytes. Compares every result with a
// model: the live blocks, their addresses, and their content.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/fake_input.h"
#include "os/fake_os.h"
#include "pages/pages.h"

namespace granary {

class FakePages {
 public:
  FakePages() {
    FakeOs::Reset();
    heap.Init();
  }
  ~FakePages() { FakeOs::Reset(); }
  FakePages(const FakePages&) = delete;
  FakePages& operator=(const FakePages&) = delete;

 private:
  // Declared first, because the other members refer to it.
  std::unique_ptr<PageMap> map_ = std::make_unique<PageMap>();

 public:
  PageMap& map = *map_;
  Metadata<FakeOs> metadata;
  PageHeap<FakeOs> heap{map, metadata};
};

class PageProgram {
 public:
  explicit PageProgram(FakePages& pages) : pages_(pages), heap_(pages.heap) {}

  void Run(FakeInput input, size_t verify_every) {
    for (size_t step = 1; !input.Done(); ++step) {
      Step(input);
      if (step % verify_every == 0) Verify();
    }
    Verify();
  }

  void FreeAll() {
    while (!live_.empty()) Free(live_.begin());
    Verify();
    GRANARY_CHECK(heap_.used_bytes() == 0);
  }

  void Verify() {
    heap_.Verify();
    const PageStats stats = heap_.Stats();
    size_t used = 0, large = 0;
    for (const auto& [at, block] : live_) {
      used += RoundUp(block.bytes, kGranule);
      if (block.large) large += RoundUp(block.bytes, kGranule);
    }
    GRANARY_CHECK(stats.used == used && stats.large == large);
    GRANARY_CHECK(stats.used + stats.dirty <= stats.mapped);
    GRANARY_CHECK(stats.mapped <= FakeOs::MappedBytes());
  }

  size_t live() const { return live_.size(); }

 private:
  struct Block {
    size_t bytes;
    uint64_t mark;
    bool large;
    uint64_t dirty;  // of a span: granules with content
  };
  using Blocks = std::map<char*, Block>;
  static constexpr size_t kMostLive = 64;

  void Step(FakeInput& input) {
    const size_t op = input.Below(16);
    if (op < 5 && live_.size() < kMostLive) return AllocateSpan(1 + input.Below(op < 2 ? 128 : 16));
    if (op < 8 && live_.size() < kMostLive) return AllocateLarge(input);
    if (op < 12) return live_.empty() ? void() : Free(Pick(input));
    if (op == 12) return Resize(input);
    if (op == 13) {
      const size_t rare = input.Below(8);
      if (rare < 2) Unmap();
      if (rare == 2) heap_.PurgeMap();
      if (rare == 3) pages_.metadata.PurgeFree();
      using Huge = PageHeap<FakeOs>::Huge;
      if (rare == 4) heap_.SetHuge(input.Below(2) == 0 ? Huge::kAlways : Huge::kLargeHeaps);
      if (rare == 5) {
        heap_.PurgeAll();
        GRANARY_CHECK(heap_.dirty_bytes() == 0);
      }
      if (rare == 6 && !live_.empty()) Split(*Pick(input));
      return heap_.EndInterval();
    }
    const size_t bytes = input.Below(64) * kGranule;
    const size_t before = heap_.dirty_bytes();
    const size_t purged = op == 14 ? heap_.PurgeDirty(bytes) : heap_.PurgeDue(bytes);
    GRANARY_CHECK(heap_.dirty_bytes() == before - purged);
    if (op == 14) GRANARY_CHECK(purged >= bytes || heap_.dirty_bytes() == 0);
  }

  void Split(const Blocks::value_type& entry) {
    if (entry.second.large) return;
    heap_.SplitHugeAt(entry.first);
    const uintptr_t tracker = RoundDown(AddressOf(entry.first), kTrackerBytes);
    GRANARY_CHECK(!FakeOs::MayBeHuge(reinterpret_cast<void*>(tracker)));
  }

  void Unmap() {
    const size_t before = heap_.Stats().mapped;
    const size_t gone = heap_.UnmapFree();
    GRANARY_CHECK(heap_.Stats().mapped == before - gone);
    for (const auto& [p, block] : live_) GRANARY_CHECK(FakeOs::IsMapped(p, block.bytes));
  }

  Blocks::iterator Pick(FakeInput& input) {
    auto it = live_.begin();
    std::advance(it, input.Below(live_.size()));
    return it;
  }

  void AllocateSpan(size_t granules) {
    if (granules > Tracker::kGranules) granules = Tracker::kGranules;
    const Memory memory = heap_.AllocateSpan(granules);
    if (memory.p == nullptr) return;
    CheckZero(static_cast<char*>(memory.p), granules, memory.dirty);
    GRANARY_CHECK(granules >= 64 || memory.dirty >> granules == 0);
    auto* const p = Enter(memory.p, granules * kGranule, false);
    GRANARY_CHECK(AddressOf(p) / kTrackerBytes ==
                  (AddressOf(p + granules * kGranule - 1)) / kTrackerBytes);
    // Half of them stay untouched, and are returned clean.
    if (++marks_ % 2 == 0) {
      live_[p].dirty = memory.dirty;
    } else {
      Mark(p, live_[p]);
    }
  }

  void AllocateLarge(FakeInput& input) {
    const size_t bytes = 1 + input.Below(5 * 256) * 8 * kKiB;
    const size_t alignment = kTrackerBytes << input.Below(3);
    const size_t reserve = bytes + input.Below(3) * kTrackerBytes;
    const Memory memory = heap_.AllocateLarge(bytes, alignment, reserve);
    if (memory.p == nullptr) return;
    GRANARY_CHECK(IsAligned(AddressOf(memory.p), alignment));
    const size_t size = RoundUp(bytes, heap_.OsPage());
    GRANARY_CHECK(heap_.LargeSize(memory.p) == size);
    if (memory.Zero()) CheckZero(static_cast<char*>(memory.p), 2, 0);
    char* const p = Enter(memory.p, size, true);
    Mark(p, live_[p]);
  }

  void Resize(FakeInput& input) {
    const size_t bytes = 1 + input.Below(5 * 256) * 8 * kKiB;
    if (live_.empty()) return;
    const auto it = Pick(input);
    auto& [p, block] = *it;
    if (!block.large) return;
    const size_t size = RoundUp(bytes, heap_.OsPage());
    CheckMarks(p, block, block.bytes < size ? block.bytes : size);
    if (!heap_.ResizeLarge(p, bytes)) {
      GRANARY_CHECK(bytes > block.bytes && heap_.LargeSize(p) == block.bytes);
      return;
    }
    CheckMarks(p, block, block.bytes < size ? block.bytes : size);
    GRANARY_CHECK(heap_.LargeSize(p) == size);
    block.bytes = size;
    CheckPlace(it);
    Mark(p, block);
  }

  void Free(Blocks::iterator it) {
    auto& [p, block] = *it;
    if (block.mark != 0) CheckMarks(p, block, block.bytes);
    if (block.large) {
      heap_.FreeLarge(p);
    } else {
      heap_.FreeSpan(p, block.bytes / kGranule, block.dirty);
    }
    live_.erase(it);
  }

  char* Enter(void* at, size_t bytes, bool large) {
    auto* const p = static_cast<char*>(at);
    const auto [it, fresh] = live_.insert({p, Block{bytes, 0, large, ~uint64_t{0}}});
    GRANARY_CHECK(fresh && FakeOs::IsMapped(p, bytes));
    CheckPlace(it);
    GRANARY_CHECK(heap_.PlaceOf(p) == PageHeap<FakeOs>::Place::kInside);
    return p;
  }

  // The block overlaps neither of its neighbours.
  void CheckPlace(Blocks::iterator it) {
    const auto after = std::next(it);
    GRANARY_CHECK(after == live_.end() || it->first + it->second.bytes <= after->first);
    if (it == live_.begin()) return;
    const auto before = std::prev(it);
    GRANARY_CHECK(before->first + before->second.bytes <= it->first);
  }

  // One word of every granule of a span, and of some granules of a block: detects lost and shared
  // pages.
  template <class Visit>
  static void ForWordsOf(const Block& block, size_t bytes, Visit&& visit) {
    const size_t step = block.large ? 32 * kGranule : kGranule;
    for (size_t at = 0; at < bytes; at += step) visit(at);
    if (bytes == block.bytes) visit(bytes - sizeof block.mark);
  }
  void Mark(char* p, Block& block) {
    block.mark = ++marks_;
    ForWordsOf(block, block.bytes, [&](size_t at) { std::memcpy(p + at, &block.mark, 8); });
  }
  static void CheckMarks(const char* p, const Block& block, size_t bytes) {
    ForWordsOf(block, bytes,
               [&](size_t at) { GRANARY_CHECK(std::memcmp(p + at, &block.mark, 8) == 0); });
  }
  static void CheckZero(const char* p, size_t granules, uint64_t dirty) {
    const uint64_t zero = 0;
    for (size_t g = 0; g < granules && g < 64; ++g) {
      if (((dirty >> g) & 1) != 0) continue;
      GRANARY_CHECK(std::memcmp(p + g * kGranule, &zero, 8) == 0);
    }
  }

  FakePages& pages_;
  PageHeap<FakeOs>& heap_;
  Blocks live_;
  uint64_t marks_ = 0;
};

}  // namespace granary
