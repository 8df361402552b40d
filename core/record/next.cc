#include "next.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "attach.h"
#include "recorder.h"

namespace granary::record {

Next next;
alignas(64) char early[kEarlyBytes];

namespace {

size_t early_used;
int finding;  // 1: a thread asks the loader

template <class Function>
void Find(Function& function, const char* symbol) {
  function = reinterpret_cast<Function>(FindBelow(symbol));
}

[[noreturn]] void Die(const char* message, size_t length) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message, length);
  __builtin_trap();
}

// What it returns before `next` is complete is not recorded.
void* MallocEarly(size_t size) {
  if (HasNext()) return next.malloc(size);
  void* const p = AllocateEarly(size, 16);
  log.known = p;
  return p;
}

void FreeUnlessEarly(void* p) {
  if (!IsEarly(p) && HasNext()) next.free(p);
}

}  // namespace

constinit Direct direct = {MallocEarly, FreeUnlessEarly};

// Runs when the process has one thread: the loader and the C library allocate before any other.
bool FindNext() {
  if (finding != 0) return false;
  finding = 1;
  Next found{};
  Find(found.malloc, "malloc");
  Find(found.free, "free");
  Find(found.calloc, "calloc");
  Find(found.realloc, "realloc");
  Find(found.aligned_alloc, "aligned_alloc");
  Find(found.posix_memalign, "posix_memalign");
  Find(found.memalign, "memalign");
  Find(found.valloc, "valloc");
  Find(found.pvalloc, "pvalloc");
  Find(found.usable_size, "malloc_usable_size");
  if (found.malloc == nullptr || found.free == nullptr || found.calloc == nullptr ||
      found.realloc == nullptr) {
    static constexpr char kMessage[] =
        "granary record: no malloc follows the recorder's in the loader's order\n";
    Die(kMessage, sizeof kMessage - 1);
  }
  auto* const malloc_last = found.malloc;
  found.malloc = nullptr;
  next = found;
  __atomic_store_n(&next.malloc, malloc_last, __ATOMIC_RELEASE);
  __atomic_store_n(&direct.malloc, malloc_last, __ATOMIC_RELEASE);
  if (early_used == 0) __atomic_store_n(&direct.free, found.free, __ATOMIC_RELEASE);
  return true;
}

void* AllocateEarly(size_t size, size_t alignment) {
  if (alignment < 16) alignment = 16;
  const size_t begin = (early_used + alignment - 1) & ~(alignment - 1);
  if (begin > kEarlyBytes || size > kEarlyBytes - begin) return nullptr;
  early_used = begin + size;
  return early + begin;
}

size_t BytesAfter(const void* p) {
  return static_cast<size_t>(early + kEarlyBytes - static_cast<const char*>(p));
}

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// In a process that is attached to, the recorder was loaded last, and only it finds its symbols.
void* FindBelow(const char* symbol) {
  if (!IsAttached()) return dlsym(RTLD_NEXT, symbol);
  void* const found = dlsym(RTLD_DEFAULT, symbol);
  return IsOwn(found) ? nullptr : found;
}

Operators operators;

Operators FindOperators() {
  Dl_info owner;
  void* const found = FindBelow("_Znwm");
  if (!HasNext() || found == nullptr || dladdr(found, &owner) == 0) return Operators::kUnknown;
  const char* const slash = strrchr(owner.dli_fname, '/');
  const char* const name = slash == nullptr ? owner.dli_fname : slash + 1;
  const bool library = strncmp(name, "libstdc++.", 10) == 0 || strncmp(name, "libc++", 6) == 0;
  const Operators known = library ? Operators::kOfLibrary : Operators::kOfAllocator;
  __atomic_store_n(&operators, known, __ATOMIC_RELAXED);
  return known;
}

}  // namespace granary::record
