#include "arena/extent_hooks.h"

#include "base/bits.h"
#include "base/units.h"
#include "os/linux.h"

namespace granary {
namespace {

void* Alloc(ExtentHooks*, void* wish, size_t size, size_t alignment, bool* zero, bool* commit,
            unsigned) {
  if (alignment < kMinOsPage) alignment = kMinOsPage;
  void* const p = Linux::Map(size, alignment, wish);
  if (p == nullptr) return nullptr;
  if (wish != nullptr && p != wish) {
    Linux::Unmap(p, size);
    return nullptr;
  }
  *zero = true;
  *commit = true;
  return p;
}

bool Dalloc(ExtentHooks*, void* p, size_t size, bool, unsigned) {
  Linux::Unmap(p, size);
  return false;
}

void Destroy(ExtentHooks*, void* p, size_t size, bool, unsigned) { Linux::Unmap(p, size); }

bool Commit(ExtentHooks*, void*, size_t, size_t, size_t, unsigned) { return false; }
bool Decommit(ExtentHooks*, void*, size_t, size_t, size_t, unsigned) { return true; }

bool Purge(ExtentHooks*, void* p, size_t, size_t offset, size_t length, unsigned) {
  return !Linux::Discard(static_cast<char*>(p) + offset, length);
}

bool Split(ExtentHooks*, void*, size_t, size_t, size_t, bool, unsigned) { return false; }
bool Merge(ExtentHooks*, void*, size_t, void*, size_t, bool, unsigned) { return false; }

}  // namespace

// The code fills this table, not the loader: relocating a table of pointers would cost every
// process a page.
ExtentHooks* DefaultHooks() noexcept {
  static ExtentHooks hooks;
  if (hooks.alloc == nullptr)
    hooks = {Alloc, Dalloc, Destroy, Commit, Decommit, Purge, Purge, Split, Merge};
  return &hooks;
}

}  // namespace granary
