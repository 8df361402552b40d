#include "compat/jemalloc/arena_index.h"

#include "arena/arenas.h"
#include "layers/layers.h"
#include "upkeep/trim.h"
#include "upkeep/upkeep.h"

namespace granary::jemalloc {

bool ArenaExists(size_t index) noexcept { return index == 0 || ArenaAt(index) != nullptr; }

void PurgeArena(size_t index, bool all) noexcept {
  if (index == 0 && all) {
    Trim();
  } else if (index == 0) {
    const Upkeep::Exclusive alone(upkeep);
    upkeep.PurgeDue();
  } else if (Arena* const arena = ArenaAt(index); arena != nullptr) {
    arena->Purge(all);
  }
}

ExtentHooks** HooksOf(size_t index) noexcept {
  Arena* const arena = ArenaAt(index);
  return arena == nullptr ? nullptr : &arena->hooks;
}

int64_t* DecayOf(size_t index, bool muzzy) noexcept {
  Arena* const arena = ArenaAt(index);
  return arena == nullptr ? nullptr : &arena->decay[muzzy];
}

char* NameOfArena(size_t index) noexcept {
  static char name_of_shared_heap[32];
  if (index == 0) return name_of_shared_heap;
  Arena* const arena = ArenaAt(index);
  return arena == nullptr ? nullptr : arena->name;
}

bool FindArena(const void* p, unsigned* index) noexcept {
  if (const Arena* const arena = OwnerOf(p); arena != nullptr) {
    *index = arena->index();
    return true;
  }
  *index = 0;
  return page_map.ClassAt(p) != kNoClass || layers.pages().LargeSize(p) != 0;
}

}  // namespace granary::jemalloc
