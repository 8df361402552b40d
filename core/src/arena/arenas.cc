#include "arena/arenas.h"

#include <errno.h>

#include "layers/layers.h"

namespace granary {
namespace {

constexpr unsigned kMostArenas = 4095;  // the maximum that the flags can name

Mutex<Linux> table_lock;
std::atomic<Arena*> table[kMostArenas];
std::atomic<unsigned> count{1};

// The lowest free index; kMostArenas if there is none.
unsigned FreeIndex() {
  unsigned index = 1;
  while (index < kMostArenas && table[index].load(std::memory_order_relaxed) != nullptr) ++index;
  return index;
}

void Link(Arena* arena) {
  arena->next.store(layers.arenas().first.load(std::memory_order_relaxed),
                    std::memory_order_relaxed);
  layers.arenas().first.store(arena, std::memory_order_release);
}

void Unlink(Arena* arena) {
  std::atomic<Arena*>* link = &layers.arenas().first;
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

int CreateArena(ExtentHooks* hooks, unsigned* index) noexcept {
  Locked hold(table_lock);
  if (hooks == nullptr) hooks = DefaultHooks();
  if (hooks->alloc == nullptr) return EINVAL;
  *index = FreeIndex();
  if (*index == kMostArenas) return EAGAIN;
  Arena* const arena = Arena::Create(hooks, *index);
  if (arena == nullptr) return EAGAIN;
  layers.arenas().count += 1;
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
    layers.arenas().count -= 1;
    Unlink(arena);
    table[index].store(nullptr, std::memory_order_release);
  }
  arena->Discard(!destroy);
  return 0;
}

ExtentHooks* SharedHooks() noexcept {
  Locked hold(table_lock);
  return DefaultHooks();
}

// In the page map, the memory of an arena has no class, and the arena in place of a slab. While
// another thread makes a slab, the rows of that slab have the same form for a moment, so the
// pointer is compared with the known arenas before it is used.
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
  const size_t before = layers.arenas().dirty.load(std::memory_order_relaxed);
  ForEachArena([](Arena& arena) { arena.Purge(true); });
  const size_t after = layers.arenas().dirty.load(std::memory_order_relaxed);
  return before > after ? before - after : 0;
}

void EndArenaIntervals() noexcept {
  if (count.load(std::memory_order_relaxed) == 1 || !table_lock.TryLock()) return;
  ForEachArena([](Arena& arena) { arena.EndInterval(); });
  table_lock.Unlock();
}

}  // namespace granary
