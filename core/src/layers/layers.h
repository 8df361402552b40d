// One object of each layer from front to pages, tied together: the heap that all threads share.
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
#include "profile/recorder.h"

namespace granary {

class Arena;

extern PageMap page_map __attribute__((visibility("hidden")));

// Sums over all arenas (arena/arena.h). Here, where a reader of the process finds them.
struct ArenaTotals {
  std::atomic<size_t> count{0};
  std::atomic<size_t> used{0};         // bytes of their spans and blocks
  std::atomic<size_t> dirty{0};        // bytes of their free spans that still hold pages
  std::atomic<Arena*> first{nullptr};  // head of the list of all arenas
};

// Compiled once, in layers.cc: the restartable sequences in Front must not lie in functions of
// which the linker discards copies.
extern template class Front<Linux>;

class Layers {
 public:
  constexpr Layers() = default;

  // False until the layers are bound and have taken up the options.
  bool ready() const noexcept { return ready_.load(std::memory_order_acquire); }
  void SetReady() noexcept { ready_.store(true, std::memory_order_release); }
  // Held by the thread that makes the layers ready.
  Mutex<Linux>& init_mutex() { return init_; }
  // Ties each layer to the one below it. The options are loaded.
  GRANARY_COLD void Bind() noexcept;

  // Frees p, an object or a large block that is not sampled.
  GRANARY_COLD void Free(void* p) noexcept;
  void FreeLarge(void* p, size_t bytes) noexcept { pages_.FreeLarge(p, IsOversize(bytes)); }
  // Option junk: overwrites p if it is in use. A block freed twice may belong to another caller.
  GRANARY_COLD void FillFreed(SizeClass c, void* p) noexcept;

  // Bytes in use, and bytes of free spans that still hold pages.
  size_t HeldBytes() noexcept { return pages_.used_bytes() + pages_.dirty_bytes(); }
  // The same without the pages of slabs that hold nothing.
  size_t ResidentBytes() noexcept {
    const size_t held = HeldBytes(), clean = central_.CleanBytes();
    return held > clean ? held - clean : 0;
  }

  // Calls visit(mutex) for each lock, in the order in which a call takes them on its way down.
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
  profile::Recorder<Linux>& profile() { return profile_; }
  ArenaTotals& arenas() { return arenas_; }

 private:
  friend struct Layout;
  static bool IsOversize(size_t bytes) noexcept {
    return options.oversize_threshold > 0 &&
           bytes >= static_cast<size_t>(options.oversize_threshold);
  }

  // First, on a page that is in use anyway.
  Mutex<Linux> init_;
  std::atomic<bool> ready_{false};
  profile::Recorder<Linux> profile_;
  Metadata<Linux> metadata_;
  PageHeap<Linux> pages_;
  Central<Linux> central_;
  Depot<Linux> depot_;
  Front<Linux> front_;
  ArenaTotals arenas_;  // last: few processes touch it
};

extern Layers layers __attribute__((visibility("hidden")));

}  // namespace granary
