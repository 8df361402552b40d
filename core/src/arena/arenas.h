// The table of all arenas, by index. Index 0 stands for the heap that all threads share, and is
// never in the table.
#pragma once

#include <cstddef>

#include "arena/arena.h"
#include "arena/extent_hooks.h"

namespace granary {

// Creates an arena whose memory comes from `hooks`, or from the system if that is nullptr. Returns
// 0 or an errno. The hooks are referred to, not copied.
int CreateArena(ExtentHooks* hooks, unsigned* index) noexcept;
// Gives all memory of the arena back to its hooks; with `destroy`, the index is free for another.
int ResetArena(size_t index, bool destroy) noexcept;
// The hooks that arenas without others have.
ExtentHooks* SharedHooks() noexcept;

// All indices are below it; some may have no arena.
unsigned ArenaCount() noexcept;
// nullptr if there is none of that index, or it is 0.
Arena* ArenaAt(size_t index) noexcept;
// The arena that p lies in; nullptr if p is in the shared heap, or not Granary's.
Arena* OwnerOf(const void* p) noexcept;

// Calls visit(arena) for each that was created and not destroyed.
template <class Visit>
void ForEachArena(Visit&& visit) noexcept {
  for (size_t i = 1; i < ArenaCount(); ++i) {
    if (Arena* const arena = ArenaAt(i); arena != nullptr) visit(*arena);
  }
}

// Around a fork, with no lock held.
void LockArenas() noexcept;
void UnlockArenas(bool child) noexcept;
void EndArenaWindows() noexcept;
// Gives the free pages of all arenas back; returns how many bytes of free spans that was.
size_t PurgeArenas() noexcept;

}  // namespace granary
