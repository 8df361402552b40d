// jemalloc's extent hooks: how an arena gets its memory, and gives it back. A result of true means
// that it was not done.
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

// One object for all arenas, so that programs can compare it; its functions may be called with the
// hooks of another. Only under the lock of the table of arenas: others call SharedHooks.
ExtentHooks* DefaultHooks() noexcept;

}  // namespace granary
