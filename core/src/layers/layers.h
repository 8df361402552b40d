// One object of each layer from front to pages, connected: the heap that all threads share.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/compiler.h"
#include "central/central.h"
#include "config/options.h"
#include "depot/depot.h"
#include "front/front.h"
#include "os/linux.h"
#include "pages/pages.h"
#include "samples/recorder.h"

namespace granary {

class Arena;

extern PageMap page_map __attribute__((visibility("hidden")));

// Sums over all arenas (arena/arena.h), stored here so that a reader of the process finds them.
struct ArenaTotals {
  std::atomic<size_t> count{0};
  std::atomic<size_t> used{0};         // bytes of spans and blocks in use
  std::atomic<size_t> dirty{0};        // bytes of dirty spans
  std::atomic<Arena*> first{nullptr};  // head of the list of all arenas
};

// Compiled once, in layers.cc: the restartable sequences in Front must not be in functions of which
// the linker discards copies.
extern template class Front<Linux>;

class Layers {
 public:
  constexpr Layers() = default;

  // False until the layers are connected and have read the options.
  bool ready() const noexcept { return ready_.load(std::memory_order_acquire); }
  GRANARY_COLD void SetReady() noexcept;
  // Held by the thread that makes the layers ready.
  Mutex<Linux>& init_mutex() { return init_; }
  // Connects each layer to the one below it. The options must be loaded.
  GRANARY_COLD void Bind() noexcept;

  // Frees p, an object or a block that is not sampled.
  GRANARY_COLD void Free(void* p) noexcept;
  void FreeLarge(void* p, size_t bytes) noexcept { pages_.FreeLarge(p, IsOversize(bytes)); }
  // For option junk: overwrites p if p is in use. After a double free, p may belong to another
  // caller.
  GRANARY_COLD void FillFreed(SizeClass c, void* p) noexcept;

  // Bytes of used spans and of dirty spans.
  size_t HeldBytes() noexcept { return pages_.used_bytes() + pages_.dirty_bytes(); }
  // The same without the clean pages of slabs.
  size_t ResidentBytes() noexcept {
    const size_t held = HeldBytes(), clean = central_.CleanBytes();
    return held > clean ? held - clean : 0;
  }

  // Calls visit(mutex) for each lock, in the order in which an allocation takes them from the top
  // layer down.
  template <class Visit>
  void ForEachMutex(Visit&& visit) noexcept {
    depot_.ForEachMutex(visit);
    for (SizeClass c = 1; c < kNumClasses; ++c) visit(central_.mutex(c));
    visit(pages_.mutex());
    visit(metadata_.mutex());
    visit(profile_.mutex());
  }

  PageHeap<Linux>& pages() { return pages_; }
  Central<Linux>& central() { return central_; }
  Depot<Linux>& depot() { return depot_; }
  Front<Linux>& front() { return front_; }
  Metadata<Linux>& metadata() { return metadata_; }
  samples::Recorder<Linux>& profile() { return profile_; }
  ArenaTotals& arenas() { return arenas_; }

 private:
  friend struct DescriptorRows;
  static bool IsOversize(size_t bytes) noexcept {
    return options.oversize_threshold > 0 &&
           bytes >= static_cast<size_t>(options.oversize_threshold);
  }

  // The first member, on a page that is in use anyway.
  Mutex<Linux> init_;
  std::atomic<bool> ready_{false};
  samples::Recorder<Linux> profile_;
  Metadata<Linux> metadata_;
  PageHeap<Linux> pages_;
  Central<Linux> central_;
  Depot<Linux> depot_;
  Front<Linux> front_;
  ArenaTotals arenas_;  // the last member: few processes touch it
};

extern Layers layers __attribute__((visibility("hidden")));

}  // namespace granary
