#include "entry/jemalloc/arenas.h"

#include <errno.h>

#include "entry/heap.h"

namespace granary::jemalloc {
namespace {

char main_name[32];

}  // namespace

unsigned ArenaCount() noexcept { return 1; }
bool ArenaExists(size_t index) noexcept { return index == 0; }
int CreateArena(ExtentHooks*, unsigned*) noexcept { return EAGAIN; }
int ResetArena(size_t, bool) noexcept { return EFAULT; }

void PurgeArena(size_t index, bool all) noexcept {
  if (index != 0) return;
  if (all) {
    heap.Trim();
  } else {
    const Upkeep::Exclusive alone(heap.upkeep());
    heap.pages().PayDebt(~size_t{0} / 2);
  }
}

ExtentHooks** HooksOf(size_t) noexcept { return nullptr; }
int64_t* DecayOf(size_t, bool) noexcept { return nullptr; }
char* NameOfArena(size_t index) noexcept { return index == 0 ? main_name : nullptr; }

bool FindArena(const void* p, unsigned* index) noexcept {
  if (page_map.ClassAt(p) == kNoClass && heap.pages().LargeSize(p) == 0) return false;
  *index = 0;
  return true;
}

const ArenaFigures* ReadArenaFigures(size_t) noexcept { return nullptr; }

}  // namespace granary::jemalloc
