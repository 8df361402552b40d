// Functions of the program that are called for samples and profiles, under jemalloc's names
// experimental.hooks.prof_*. They may allocate. While one runs, its thread takes no sample.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary::profile_hooks {

enum Hook : uint32_t { kDump, kSample, kFree, kCount };

// The address of the function; 0 for none.
uint64_t Get(uint32_t hook) noexcept;
void Set(uint32_t hook, uint64_t function) noexcept;

// The hooks: a profile was written to this file; p was sampled; a sampled object is about to be
// freed. The caller holds no lock.
void Dumped(const char* path) noexcept;
void Sampled(const void* p, size_t requested, uintptr_t* frames, size_t depth,
             size_t bytes) noexcept;
void Freed(const void* p, size_t bytes) noexcept;

}  // namespace granary::profile_hooks
