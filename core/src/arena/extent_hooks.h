// The functions by which an arena allocates and frees its memory. The layout is that of jemalloc's
// extent_hooks_t. A result of true means failure.
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

// The hooks that map memory from the kernel. All arenas share one object, so that programs can
// compare it; its functions accept the hooks of another arena. Call this function only under the
// lock of the table of arenas; other code calls SharedHooks (arena/arenas.h).
ExtentHooks* DefaultHooks() noexcept;

}  // namespace granary
