// realloc: resizes an object in place if possible; otherwise moves its pages or copies its bytes.

#include "arena/arenas.h"
#include "front/thread_settings.h"
#include "heap/heap.h"
#include "heap/internal.h"
#include "profiler/profiler.h"
#include "profiler/sampled_guards.h"
#include "upkeep/upkeep.h"

namespace granary::heap {
namespace {

// From this size on, a growing block gets address space to grow into. Its pages stay in place, or
// move by the page table.
constexpr size_t kGrowsInPlaceFrom = 256 * kKiB;

// For an impossible request, a size that AllocateLarge refuses.
size_t GoodSizeOrMost(size_t size) {
  const size_t good = GoodSize(size, 1);
  return good != 0 ? good : kMaxRequest + 1;
}

void* MoveToNew(void* p, size_t old_size, size_t size) {
  const SizeClass c = ClassOf(size);
  void* q = nullptr;
  if (c != kNoClass) q = TakeCached(PopList(c), size);
  if (q == nullptr) q = Allocate(size);
  if (q == nullptr) return nullptr;
  __builtin_memcpy(q, p, size < old_size ? size : old_size);
  if (!PushCached(page_map.ClassAt(p), p)) Free(p);
  return q;
}

// The first `moved` bytes of the block p are in q, and the region of q after them is lost: p gets
// them back, and is then copied to a third block.
GRANARY_COLD void* LeaveLost(void* p, void* q, size_t moved, size_t size) {
  __builtin_memcpy(p, q, moved);
  if (layers.pages().CutLarge(q, moved)) Free(q);
  return MoveToNew(p, layers.pages().LargeSize(p), size);
}

void* ReallocateLarge(void* p, size_t old_size, size_t size) {
  if (size < kGrowsInPlaceFrom) return MoveToNew(p, old_size, size);
  const size_t good = GoodSizeOrMost(size);
  if (good == old_size || layers.pages().ResizeLarge(p, good)) {
    if (layers.profile().Collects() && good != old_size) [[unlikely]]
      profiler::ResampleLarge(p, good);
    upkeep.NoteUsed(layers.pages().used_bytes());
    return p;
  }
  void* const q = AllocateLarge(good, kTrackerBytes, good * 2, false);
  if (q == nullptr) return nullptr;
  const MoveResult move = layers.pages().MoveLarge(p, q);
  if (move.lost) [[unlikely]]
    return LeaveLost(p, q, move.bytes, good);
  const size_t common = good < old_size ? good : old_size;
  if (move.bytes < common) {
    __builtin_memcpy(static_cast<char*>(q) + move.bytes, static_cast<char*>(p) + move.bytes,
                     common - move.bytes);
  }
  if (layers.profile().Collects() && !profiler::Unsample(p)) [[unlikely]]
    return q;
  if (move.bytes >= layers.pages().LargeSize(p)) {
    layers.pages().FreeMovedLarge(p);
  } else {
    layers.FreeLarge(p, old_size);
  }
  return q;
}

// The object stays in its arena.
GRANARY_COLD void* MoveInArena(Arena& arena, void* p, size_t size) {
  void* const q = arena.Reallocate(p, size);
  return q != nullptr ? q : Refused(size);
}

}  // namespace

void* Reallocate(void* p, size_t size) noexcept {
  EnsureInit();
  if (HasThreadSettings()) return ReallocateWithSettings(p, size);
  if (options.hardened) return hardened::Reallocate(p, size);
  const SizeClass c = ObjectClassAt(page_map, p);
  const size_t old_size = UsableSize(p, "realloc");
  if (c != kNoClass) RequireLive(c, p, "realloc");
  if (c == kNoClass) {
    if (old_size == 0 || sampled_guards::Holds(p)) return MoveToNew(p, old_size, size);
    if (Arena* const arena = OwnerOf(p)) return MoveInArena(*arena, p, size);
    return ReallocateLarge(p, old_size, size);
  }
  if (ClassOf(size) == c) {
    if (page_map.ClassAt(p) == kSampledClass && layers.profile().MayRecord())
      layers.profile().Resized(p, size);
    return p;
  }
  if (size > old_size && size >= kGrowsInPlaceFrom) {
    const size_t good = GoodSizeOrMost(size);
    const size_t reserve = good * 2 > 4 * kMiB ? good * 2 : 4 * kMiB;
    void* const q = AllocateLarge(good, kTrackerBytes, reserve, false);
    if (q == nullptr) return nullptr;
    __builtin_memcpy(q, p, old_size);
    Free(p);
    return q;
  }
  return MoveToNew(p, old_size, size);
}

}  // namespace granary::heap
