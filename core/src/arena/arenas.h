// Arenas beyond the heap that all share: each an allocator of its own, whose memory comes from
// extent hooks (compat with jemalloc's). Arena 0 is the shared heap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/arena.h"
#include "arena/extent_hooks.h"

namespace granary {

bool ArenaExists(size_t index) noexcept;
// 0, or an errno. The hooks are referred to, not copied; nullptr for the default ones.
int CreateArena(ExtentHooks* hooks, unsigned* index) noexcept;
// Gives all its memory back to its hooks; with `destroy`, the index is free for another.
int ResetArena(size_t index, bool destroy) noexcept;
// Gives free memory back: all of it, or what has been idle for the decay time.
void PurgeArena(size_t index, bool all) noexcept;
// The default ones (hooks.h).
ExtentHooks* SharedHooks() noexcept;
// nullptr if there is no such arena, or it is 0.
ExtentHooks** HooksOf(size_t index) noexcept;
int64_t* DecayOf(size_t index, bool muzzy) noexcept;
char* NameOfArena(size_t index) noexcept;  // of 32 bytes
// The arena that p lies in; false if p is not ours.
bool FindArena(const void* p, unsigned* index) noexcept;

}  // namespace granary
