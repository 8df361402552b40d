// What all parts of the page heap share: the lock, the free regions, the figures, and the source of
// metadata.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/mutex.h"
#include "os/os.h"
#include "pages/density.h"
#include "pages/free_runs.h"
#include "pages/metadata.h"
#include "pages/page_figures.h"
#include "pages/page_map.h"

namespace granary {

struct Memory {
  void* p = nullptr;
  uint64_t dirty = 0;  // one bit for each of the first 64 granules that may have old content

  bool Zero() const { return dirty == 0; }  // for at most 64 granules, and for blocks
};

template <Os System>
struct PageCore {
  PageMap* map = nullptr;
  Metadata<System>* metadata = nullptr;
  Mutex<System> mutex;
  FreeRuns free;
  PageFigures figures;
  size_t os_page = 0;
  bool guards = false;  // option hardened: unused memory is guarded

  Tracker* At(const Tracker* first, size_t index) const {
    return map->TrackerAt(first->base + index * kTrackerBytes);
  }
};

// Makes memory read as zero: purges it, or clears the pages that the system does not purge (locked
// pages).
template <Os System>
void PurgeOrClear(char* p, size_t bytes) noexcept {
  if (!System::Purge(p, bytes)) System::Clear(p, bytes);
}

}  // namespace granary
