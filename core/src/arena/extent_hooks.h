// How an arena gets its memory and gives it back. The layout is that of jemalloc's extent_hooks_t.
// A result of true means failure.
#pragma once

#include <cstddef>

namespace granary {

struct ExtentHooks {
  void* (*alloc)(ExtentHooks*, void* wish, size_t size, size_t alignment, bool* zero, bool* commit,
                 unsigned arena);
  bool (*dalloc)(ExtentHooks*, void* p, size_t size, bool committed, unsigned arena);
  void (*destroy)(ExtentHooks*, void* p, size_t size, bool committed, unsigned arena);
  bool (*commit)(ExtentHooks*, void* p, size_t size, size_t offset, size_t length, unsigned arena);
  bool (*decommit)(ExtentHooks*, void* p, size_t size, size_t offset, size_t length,
                   unsigned arena);
  bool (*purge_lazy)(ExtentHooks*, void* p, size_t size, size_t offset, size_t length,
                     unsigned arena);
  bool (*purge_forced)(ExtentHooks*, void* p, size_t size, size_t offset, size_t length,
                       unsigned arena);
  bool (*split)(ExtentHooks*, void* p, size_t size, size_t size_a, size_t size_b, bool committed,
                unsigned arena);
  bool (*merge)(ExtentHooks*, void* a, size_t size_a, void* b, size_t size_b, bool committed,
                unsigned arena);
};

// The hooks that take memory from the system. One object for all arenas, so that programs can
// compare it; its functions accept the hooks of another arena. Call it only under the lock of the
// table of arenas: others call SharedHooks (arena/arenas.h).
ExtentHooks* DefaultHooks() noexcept;

}  // namespace granary
