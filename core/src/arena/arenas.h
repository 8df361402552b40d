// The table of all arenas by index. Index 0 stands for the heap that all threads share. It is never
// in the table.
#pragma once

#include <cstddef>

#include "arena/arena.h"
#include "arena/extent_hooks.h"

namespace granary {

// Creates an arena whose memory comes from `hooks`, or from Linux if that is nullptr. Returns 0 or
// an errno. The arena refers to the hooks and does not copy them.
int CreateArena(ExtentHooks* hooks, unsigned* index) noexcept;
// Returns all memory of the arena to its hooks. With `destroy`, the index is free for another
// arena.
int ResetArena(size_t index, bool destroy) noexcept;
// The hooks of arenas without hooks of their own.
ExtentHooks* SharedHooks() noexcept;

// All indices are below this number. Some of them may have no arena.
unsigned ArenaCount() noexcept;
// nullptr if no arena has that index, or if it is 0.
Arena* ArenaAt(size_t index) noexcept;
// The arena that contains p; nullptr if p is in the shared heap or an unknown address.
Arena* OwnerOf(const void* p) noexcept;

// Calls visit(arena) for each arena that exists.
template <class Visit>
void ForEachArena(Visit&& visit) noexcept {
  for (size_t i = 1; i < ArenaCount(); ++i) {
    if (Arena* const arena = ArenaAt(i); arena != nullptr) visit(*arena);
  }
}

// Called around a fork, with no lock held.
void LockArenas() noexcept;
void UnlockArenas(bool child) noexcept;
void EndArenaIntervals() noexcept;
// Purges the free pages of all arenas; returns the bytes of free spans that were purged.
size_t PurgeArenas() noexcept;

}  // namespace granary
