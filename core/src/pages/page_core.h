// What all parts of the page heap share: its lock, the free regions, the figures, and where to ask
// for metadata.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/mutex.h"
#include "os/os.h"
#include "pages/fill.h"
#include "pages/free_runs.h"
#include "pages/metadata.h"
#include "pages/page_figures.h"
#include "pages/page_map.h"

namespace granary {

struct Memory {
  void* p = nullptr;
  uint64_t dirty = 0;  // a bit for each of the first 64 granules that may hold old bytes

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
  bool guards = false;  // option hardened: memory without an owner is guarded

  Tracker* At(const Tracker* first, size_t index) const {
    return map->TrackerAt(first->base + index * kTrackerBytes);
  }
};

// Makes memory read as zero, by purging it where the system allows that. Pages that the system
// refuses to take (locked ones) stay resident and are cleared.
template <Os System>
void PurgeOrClear(char* p, size_t bytes) noexcept {
  if (!System::Purge(p, bytes)) System::Clear(p, bytes);
}

}  // namespace granary
