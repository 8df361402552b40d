// Declarations for the files of this folder.
#pragma once

#include <cstddef>

#include "base/compiler.h"
#include "heap/empty_objects.h"
#include "layers/layers.h"

namespace granary {
class Arena;
}

namespace granary::heap {

// Allocates a block, with address space of `reserve` bytes to grow into.
void* AllocateLarge(size_t size, size_t alignment, size_t reserve, bool zero) noexcept;
// Aborts if p, which the page map says is in an object of class c, is not the address of an object,
// or its slab says that it is free.
void RequireLive(SizeClass c, const void* p, const char* verb) noexcept;
// Fills a new object as the options `zero` and `junk` require. Either option disables the caches.
void* Filled(void* p, size_t size) noexcept;
// Sets errno and returns nullptr, or aborts if the option abort_on_oom is set.
GRANARY_COLD void* Refused(size_t size) noexcept;

// An object of a small class from the caches, or from the layers below them.
void* AllocateClass(SizeClass c, size_t requested) noexcept;
// Frees p, which is in no slab and is no block of the shared heap: an object of an arena, or
// misuse.
GRANARY_COLD void FreeOfArena(void* p) noexcept;
// Aborts, or with option warn_wrong_size warns, that a sized free of p passed another size than
// that of the object.
GRANARY_COLD void ReportWrongSize(const void* p, size_t actual, size_t passed) noexcept;
[[noreturn]] GRANARY_COLD void DieOf(const void* p, const char* verb) noexcept;

extern constinit EmptyObjects<Linux> empty_objects;
// Aborts if p, which empty_objects holds, is not in use; otherwise returns its size, zero.
GRANARY_COLD size_t RequireEmpty(const void* p, const char* verb) noexcept;

// The same calls with option hardened (heap_hardened.cc).
namespace hardened {
void Init() noexcept;
void* Allocate(size_t size, size_t alignment) noexcept;
void Free(void* p) noexcept;
void* Reallocate(void* p, size_t size) noexcept;
size_t UsableSize(const void* p, const char* verb) noexcept;
size_t ResizeInPlace(void* p, size_t size) noexcept;
// Frees the objects that wait in quarantine; aborts if one was written to.
void FlushQuarantine() noexcept;
// Makes the objects in quarantine zero again, in the child of a fork whose copy of the heap was
// made while other threads freed (option backing).
void ClearQuarantine() noexcept;
}  // namespace hardened

// Calls of a thread with thread settings (front/thread_settings.h).
GRANARY_COLD void* AllocateWithSettings(size_t size, size_t alignment, bool zero) noexcept;
GRANARY_COLD void FreeWithSettings(void* p) noexcept;
GRANARY_COLD void* ReallocateWithSettings(void* p, size_t size) noexcept;

}  // namespace granary::heap
