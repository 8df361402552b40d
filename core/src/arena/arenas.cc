#include "arena/arenas.h"

#include <errno.h>

#include "heap/heap.h"

namespace granary {
namespace {

constexpr unsigned kMostArenas = 4095;  // as the flags can name

Mutex<Linux> table_lock;
std::atomic<Arena*> table[kMostArenas];
std::atomic<unsigned> count{1};
char main_name[32];

// The lowest index that is free; kMostArenas if there is none.
unsigned FreeIndex() {
  unsigned index = 1;
  while (index < kMostArenas && table[index].load(std::memory_order_relaxed) != nullptr) ++index;
  return index;
}

void Link(Arena* arena) {
  arena->next.store(heap.arenas().first.load(std::memory_order_relaxed), std::memory_order_relaxed);
  heap.arenas().first.store(arena, std::memory_order_release);
}

void Unlink(Arena* arena) {
  std::atomic<Arena*>* link = &heap.arenas().first;
  while (Arena* const at = link->load(std::memory_order_relaxed)) {
    if (at == arena) return link->store(arena->next.load(std::memory_order_relaxed));
    link = &at->next;
  }
}

}  // namespace

unsigned ArenaCount() noexcept { return count.load(std::memory_order_acquire); }

Arena* ArenaAt(size_t index) noexcept {
  return index < kMostArenas ? table[index].load(std::memory_order_acquire) : nullptr;
}

bool ArenaExists(size_t index) noexcept { return index == 0 || ArenaAt(index) != nullptr; }

int CreateArena(ExtentHooks* hooks, unsigned* index) noexcept {
  Locked hold(table_lock);
  if (hooks == nullptr) hooks = DefaultHooks();
  if (hooks->alloc == nullptr) return EINVAL;
  *index = FreeIndex();
  if (*index == kMostArenas) return EAGAIN;
  Arena* const arena = Arena::Create(hooks, *index);
  if (arena == nullptr) return EAGAIN;
  heap.arenas().count += 1;
  Link(arena);
  table[*index].store(arena, std::memory_order_release);
  if (*index >= count.load(std::memory_order_relaxed))
    count.store(*index + 1, std::memory_order_release);
  return 0;
}

int ResetArena(size_t index, bool destroy) noexcept {
  Locked hold(table_lock);
  Arena* const arena = ArenaAt(index);
  if (arena == nullptr) return EFAULT;
  if (destroy) {
    heap.arenas().count -= 1;
    Unlink(arena);
    table[index].store(nullptr, std::memory_order_release);
  }
  arena->Discard(!destroy);
  return 0;
}

void PurgeArena(size_t index, bool all) noexcept {
  if (index == 0 && all) {
    heap.Trim();
  } else if (index == 0) {
    const Upkeep::Exclusive alone(heap.upkeep());
    heap.upkeep().PayDebt();
  } else if (Arena* const arena = ArenaAt(index); arena != nullptr) {
    arena->Purge(all);
  }
}

ExtentHooks* SharedHooks() noexcept {
  Locked hold(table_lock);
  return DefaultHooks();
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
  if (index == 0) return main_name;
  Arena* const arena = ArenaAt(index);
  return arena == nullptr ? nullptr : arena->name;
}

// The rows of an arena's memory in the map have no class, and the arena for a slab; those of a slab
// that is just being made look alike for a moment, so that the pointer is compared before it is
// used.
Arena* OwnerOf(const void* p) noexcept {
  if (count.load(std::memory_order_acquire) == 1 || !page_map.Covers(p)) return nullptr;
  if (page_map.ClassAt(p) != kNoClass) return nullptr;
  const void* const owner = page_map.SlabAt(p);
  if (owner == nullptr) return nullptr;
  for (unsigned i = 1; i < ArenaCount(); ++i) {
    if (ArenaAt(i) == owner) return ArenaAt(i);
  }
  return nullptr;
}

bool FindArena(const void* p, unsigned* index) noexcept {
  if (const Arena* const arena = OwnerOf(p); arena != nullptr) {
    *index = arena->index();
    return true;
  }
  *index = 0;
  return page_map.ClassAt(p) != kNoClass || heap.pages().LargeSize(p) != 0;
}

void LockArenas() noexcept {
  table_lock.Lock();
  ForEachArena([](Arena& arena) { arena.ForEachMutex([](auto& m) { m.Lock(); }); });
}

void UnlockArenas(bool child) noexcept {
  ForEachArena([child](Arena& arena) {
    if (child) arena.ForgetOthers();
    arena.ForEachMutex([child](auto& m) { child ? m.Reset() : m.Unlock(); });
  });
  child ? table_lock.Reset() : table_lock.Unlock();
}

size_t PurgeArenas() noexcept {
  if (count.load(std::memory_order_relaxed) == 1) return 0;
  Locked hold(table_lock);
  const size_t before = heap.arenas().dirty.load(std::memory_order_relaxed);
  ForEachArena([](Arena& arena) { arena.Purge(true); });
  const size_t after = heap.arenas().dirty.load(std::memory_order_relaxed);
  return before > after ? before - after : 0;
}

void EndArenaWindows() noexcept {
  if (count.load(std::memory_order_relaxed) == 1 || !table_lock.TryLock()) return;
  ForEachArena([](Arena& arena) { arena.EndWindow(); });
  table_lock.Unlock();
}

}  // namespace granary
