#include "compat/jemalloc/ctl_raw.h"

#include <errno.h>

#include "arena/arenas.h"
#include "compat/jemalloc/allocx.h"
#include "compat/jemalloc/arena_index.h"
#include "layers/layers.h"

namespace granary::jemalloc {
namespace {

struct Utilization {
  size_t free, regions, bytes;
};

struct UtilizationInBin {
  const void* current;
  Utilization slab;
  size_t bin_free, bin_regions;
};

Occupancy OccupancyAt(const void* p) {
  Arena* const arena = OwnerOf(p);
  return arena != nullptr ? arena->OccupancyAt(p) : layers.central().OccupancyAt(p);
}

// All zero for an unknown address.
Utilization UtilizationAt(const void* p) {
  const Occupancy o = OccupancyAt(p);
  if (o.slab != nullptr) return {o.free, o.objects, o.bytes};
  const SizeClass c = ObjectClassAt(page_map, p);
  if (c != kNoClass) return {0, 1, kClassSize[c]};
  Arena* const arena = OwnerOf(p);
  const size_t large = arena != nullptr ? arena->UsableSize(p) : layers.pages().LargeSize(p);
  return large == 0 ? Utilization{} : Utilization{0, 1, large};
}

int Query(void* oldp, size_t* oldlenp, void* newp, size_t newlen) {
  if (oldp == nullptr || oldlenp == nullptr || *oldlenp != sizeof(UtilizationInBin) ||
      newp == nullptr || newlen != sizeof(void*)) {
    return EINVAL;
  }
  const void* p;
  __builtin_memcpy(&p, newp, sizeof p);
  const Occupancy o = OccupancyAt(p);
  UtilizationInBin out{};
  out.slab = UtilizationAt(p);
  if (o.slab != nullptr) {
    out.current = o.serves_next ? o.slab : nullptr;
    out.bin_free = o.partial_slabs * o.objects - o.partial_used;
    out.bin_regions = o.slabs * o.objects;
  }
  __builtin_memcpy(oldp, &out, sizeof out);
  return 0;
}

int BatchQuery(void* oldp, size_t* oldlenp, void* newp, size_t newlen) {
  const size_t count = newlen / sizeof(void*);
  if (oldp == nullptr || oldlenp == nullptr || newp == nullptr || count == 0 ||
      newlen != count * sizeof(void*) || *oldlenp != count * sizeof(Utilization)) {
    return EINVAL;
  }
  void** const in = static_cast<void**>(newp);
  auto* const out = static_cast<Utilization*>(oldp);
  for (size_t i = 0; i < count; ++i) out[i] = UtilizationAt(in[i]);
  return 0;
}

struct Batch {
  void** to;
  size_t count;
  size_t size;
  int flags;
};

int BatchAllocate(void* oldp, size_t* oldlenp, void* newp, size_t newlen) {
  if (oldp == nullptr || oldlenp == nullptr || *oldlenp != sizeof(size_t) || newp == nullptr ||
      newlen != sizeof(Batch)) {
    return EINVAL;
  }
  Batch batch;
  __builtin_memcpy(&batch, newp, sizeof batch);
  size_t filled = 0;
  while (filled < batch.count) {
    void* const p = Allocate(batch.size, Flags(batch.flags));
    if (p == nullptr) break;
    batch.to[filled++] = p;
  }
  __builtin_memcpy(oldp, &filled, sizeof filled);
  return 0;
}

struct ArenaConfig {
  ExtentHooks* hooks;
  bool metadata_use_hooks;
};

int CreateArenaExt(void* oldp, size_t* oldlenp, void* newp, size_t newlen) {
  ArenaConfig config{nullptr, true};
  if (newp != nullptr) {
    if (newlen != sizeof config) return EINVAL;
    __builtin_memcpy(&config, newp, sizeof config);
  }
  if (oldp == nullptr || oldlenp == nullptr || *oldlenp != sizeof(unsigned)) return EINVAL;
  unsigned index;
  const int error = CreateArena(config.hooks, &index);
  if (error == 0) __builtin_memcpy(oldp, &index, sizeof index);
  return error;
}

}  // namespace

int CallRaw(const Found& f, void* oldp, size_t* oldlenp, void* newp, size_t newlen) noexcept {
  switch (f.row->handler) {
    case Handler::kUtilizationQuery:
      return Query(oldp, oldlenp, newp, newlen);
    case Handler::kUtilizationBatch:
      return BatchQuery(oldp, oldlenp, newp, newlen);
    case Handler::kBatchAllocate:
      return BatchAllocate(oldp, oldlenp, newp, newlen);
    case Handler::kArenaCreateExt:
      return CreateArenaExt(oldp, oldlenp, newp, newlen);
    default:
      return ENOENT;
  }
}

// The caller passes the address of a buffer of 32 bytes to read a name, or of a text to write one.
int CallArenaName(size_t arena, void* oldp, size_t* oldlenp, void* newp, size_t newlen) noexcept {
  char* const name = NameOfArena(arena);
  if (name == nullptr) return EFAULT;
  if (oldp != nullptr && oldlenp != nullptr) {
    if (*oldlenp != sizeof(char*)) return EINVAL;
    __builtin_memcpy(*static_cast<char**>(oldp), name, 32);
  }
  if (newp == nullptr) return 0;
  if (newlen != sizeof(char*)) return EINVAL;
  const char* text;
  __builtin_memcpy(&text, newp, sizeof text);
  if (text == nullptr) return EINVAL;
  size_t n = 0;
  for (; n < 31 && text[n] != 0; ++n) name[n] = text[n];
  name[n] = 0;
  return 0;
}

// The slab that serves the next request is being filled, and one move cannot empty a full slab. Of
// the other slabs, a move is worthwhile in those less full than the average (with an eighth of
// slack) and in those at most five eighths full: slabs with few objects, none of which can move,
// lower the average.
bool WorthMoving(const void* p) noexcept {
  const Occupancy o = OccupancyAt(p);
  if (o.slab == nullptr || o.free == 0 || o.serves_next) return false;
  const size_t others = o.partial_slabs - 1;
  const size_t used = o.partial_used - o.next_used;
  return o.free * 8 >= o.objects * 3 || (o.objects - o.free) * others <= used + used / 8;
}

}  // namespace granary::jemalloc
