// Arenas by jemalloc's indices. Index 0 is the heap that all threads share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/extent_hooks.h"

namespace granary::jemalloc {

bool ArenaExists(size_t index) noexcept;
// Purges all free memory, or the memory that has been idle for the decay time.
void PurgeArena(size_t index, bool all) noexcept;
// These return nullptr if there is no such arena, or if the index is 0.
ExtentHooks** HooksOf(size_t index) noexcept;
int64_t* DecayOf(size_t index, bool muzzy) noexcept;
// The arena's name, a buffer of 32 bytes. Arena 0 has one, too.
char* NameOfArena(size_t index) noexcept;
// Finds the index of the arena that contains p. False if p is an unknown address.
bool FindArena(const void* p, unsigned* index) noexcept;

}  // namespace granary::jemalloc
