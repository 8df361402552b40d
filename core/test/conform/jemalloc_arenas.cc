// Arenas that mallctl creates: one on a file-backed mapping, one whose hooks wrap the default hooks
// as in RocksDB, a thread bound to one, their figures, reset and destruction, forks.
#include <fcntl.h>
#include <jemalloc/jemalloc.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"
#include "child.h"

#pragma weak mallctl
#pragma weak mallctlbymib
#pragma weak mallctlnametomib
#pragma weak mallocx
#pragma weak rallocx
#pragma weak xallocx
#pragma weak sallocx
#pragma weak dallocx
#pragma weak nallocx

namespace {

template <class T>
T Get(const char* name) {
  T value{};
  size_t size = sizeof value;
  const int error = mallctl(name, &value, &size, nullptr, 0);
  if (error != 0) fprintf(stderr, "%s: error %d\n", name, error);
  CHECK(error == 0);
  return value;
}

template <class T>
T GetOf(const char* format, unsigned arena) {
  char name[80];
  snprintf(name, sizeof name, format, arena);
  return Get<T>(name);
}

int Do(const char* format, unsigned arena) {
  char name[80];
  snprintf(name, sizeof name, format, arena);
  return mallctl(name, nullptr, nullptr, nullptr, 0);
}

void Refresh() {
  uint64_t epoch = 1;
  CHECK(mallctl("epoch", nullptr, nullptr, &epoch, sizeof epoch) == 0);
}

unsigned Create(extent_hooks_t* hooks) {
  unsigned index = 0;
  size_t size = sizeof index;
  const int error = hooks == nullptr
                        ? mallctl("arenas.create", &index, &size, nullptr, 0)
                        : mallctl("arenas.create", &index, &size, &hooks, sizeof hooks);
  CHECK(error == 0 && index > 0);
  return index;
}

unsigned ArenaOf(void* p) {
  unsigned index = 99;
  size_t size = sizeof index;
  CHECK(mallctl("arenas.lookup", &index, &size, &p, sizeof p) == 0);
  return index;
}

// ---- hooks over one file, mapped once, allocated from its start ----

constexpr size_t kFileBytes = size_t{256} << 20;
char* file_base;
size_t file_used;
int file_allocs, file_purges, file_gone;

void* FileAlloc(extent_hooks_t*, void* wish, size_t size, size_t alignment, bool* zero,
                bool* commit, unsigned) {
  CHECK(*zero && *commit);
  const size_t at = (file_used + alignment - 1) / alignment * alignment;
  if (at + size > kFileBytes || (wish != nullptr && wish != file_base + at)) return nullptr;
  file_used = at + size;
  ++file_allocs;
  return file_base + at;
}
bool FileDalloc(extent_hooks_t*, void*, size_t, bool, unsigned) { return true; }
void FileDestroy(extent_hooks_t*, void* p, size_t size, bool, unsigned) {
  CHECK(p >= file_base && static_cast<char*>(p) + size <= file_base + file_used);
  ++file_gone;
}
bool FilePurge(extent_hooks_t*, void* p, size_t, size_t offset, size_t length, unsigned) {
  ++file_purges;
  return madvise(static_cast<char*>(p) + offset, length, MADV_REMOVE) != 0;
}

extent_hooks_t file_hooks = {FileAlloc, FileDalloc, FileDestroy, nullptr, nullptr,
                             nullptr,   FilePurge,  nullptr,     nullptr};

bool InFile(const void* p) { return p >= file_base && p < file_base + kFileBytes; }

int OpenFile() {
  char path[] = "/tmp/granary-arena.XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0 && unlink(path) == 0 && ftruncate(file, kFileBytes) == 0);
  // The hooks must return aligned memory, so the mapping starts at such an address.
  constexpr size_t kAlignment = 2 << 20;
  void* const p =
      mmap(nullptr, kFileBytes + kAlignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uintptr_t at = (reinterpret_cast<uintptr_t>(p) + kAlignment - 1) / kAlignment * kAlignment;
  file_base = static_cast<char*>(mmap(reinterpret_cast<void*>(at), kFileBytes,
                                      PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0));
  CHECK(file_base != MAP_FAILED);
  return file;
}

void CheckFileBacked() {
  const int file = OpenFile();
  const unsigned arena = Create(&file_hooks);
  CHECK(Get<unsigned>("arenas.narenas") == arena + 1);
  CHECK(GetOf<bool>("arena.%u.initialized", arena));
  CHECK(GetOf<size_t>("stats.arenas.%u.pactive", arena) == 0);  // immediately, before any epoch
  CHECK(GetOf<extent_hooks_t*>("arena.%u.extent_hooks", arena) == &file_hooks);
  const int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;

  constexpr size_t kCount = 3000;
  static char* blocks[kCount];
  size_t sum = 0, usable = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const size_t size = 1 + i * 13 + (i % 500 == 0 ? 3 << 20 : 0);
    blocks[i] = static_cast<char*>(mallocx(size, flags | (i % 7 == 0 ? MALLOCX_ALIGN(4096) : 0)));
    CHECK(InFile(blocks[i]) && ArenaOf(blocks[i]) == arena);
    CHECK(i % 7 != 0 || IsAligned(blocks[i], 4096));
    memset(blocks[i], static_cast<int>(i % 251 + 1), size);
    sum += size;
    usable += malloc_usable_size(blocks[i]);
  }
  CHECK(file_allocs > 0 && sum <= usable);
  Refresh();
  // Blocks above 1 MiB are rounded up to granules of 16 or 64 KiB.
  const size_t allocated = GetOf<size_t>("stats.arenas.%u.small.allocated", arena) +
                           GetOf<size_t>("stats.arenas.%u.large.allocated", arena);
  CHECK(allocated >= usable && allocated < usable + kCount / 500 * (64 << 10));
  CHECK(GetOf<size_t>("stats.arenas.%u.pactive", arena) * Get<size_t>("arenas.page") >= usable);
  CHECK(GetOf<uint64_t>("stats.arenas.%u.bins.1.nmalloc", arena) >= 1);
  CHECK(Get<size_t>("stats.arenas.4096.small.allocated") ==
        Get<size_t>("stats.arenas.0.small.allocated") +
            GetOf<size_t>("stats.arenas.%u.small.allocated", arena));

  // The bytes are in the file.
  char byte;
  CHECK(pread(file, &byte, 1, blocks[5] - file_base) == 1 && byte == 6);

  // Other allocations never come from this arena, and memory freed here does not serve them.
  void* const other = malloc(100);
  CHECK(!InFile(other) && ArenaOf(other) == 0);
  free(other);
  for (size_t i = 0; i < kCount; i += 2) free(blocks[i]);
  for (int i = 0; i < 1000; ++i) CHECK(!InFile(malloc(1 + i * 13)));

  // An object stays in its arena whatever size it grows to.
  for (size_t i = 1; i < kCount; i += 2) {
    const size_t size = 1 + i * 13 + (i % 500 == 0 ? 3 << 20 : 0);
    char* p = static_cast<char*>(i % 4 == 1 ? realloc(blocks[i], size * 2)
                                            : rallocx(blocks[i], size * 2, flags));
    CHECK(InFile(p) && p[0] == static_cast<char>(i % 251 + 1) && p[size - 1] == p[0]);
    CHECK(malloc_usable_size(p) == nallocx(size * 2, 0));
    blocks[i] = p;
  }
  char* const zeroed = static_cast<char*>(mallocx(20000, flags | MALLOCX_ZERO));
  for (size_t i = 0; i < 20000; ++i) CHECK(zeroed[i] == 0);
  dallocx(zeroed, flags);
  for (size_t i = 1; i < kCount; i += 2) dallocx(blocks[i], i % 3 == 0 ? 0 : flags);

  CHECK(Do("arena.%u.purge", arena) == 0 && file_purges > 0);
  Refresh();
  CHECK(GetOf<size_t>("stats.arenas.%u.pdirty", arena) == 0);
  CHECK(GetOf<size_t>("stats.arenas.%u.small.allocated", arena) == 0);

  // When the hooks refuse memory, the arena is full and the process is not.
  CHECK(mallocx(kFileBytes, flags) == nullptr);
  CHECK(InFile(mallocx(100, flags)));

  CHECK(Do("arena.%u.destroy", arena) == 0 && file_gone == file_allocs);
  CHECK(Do("arena.%u.purge", arena + 7) == EFAULT && mallocx(1, flags) == nullptr);
  CHECK(Create(nullptr) == arena);  // the index is used again
  CHECK(Do("arena.%u.destroy", arena) == 0);
  close(file);
}

// ---- the same hooks for arena 0, the heap that all threads share ----

// A block that is full of zeros before this fills it.
char* Filled(size_t bytes) {
  char* const p = static_cast<char*>(calloc(1, bytes));
  CHECK(p != nullptr);
  for (size_t i = 0; i < bytes; i += 512) CHECK(p[i] == 0);
  memset(p, 7, bytes);
  return p;
}

void CheckSharedHeap() {
  constexpr size_t kLarge = size_t{80} << 20, kSmall = 60000;
  file_used = 0;
  const int file = OpenFile();
  const int purges = file_purges;
  extent_hooks_t* before = GetOf<extent_hooks_t*>("arena.%u.extent_hooks", 0);
  extent_hooks_t* given = &file_hooks;
  CHECK(mallctl("arena.0.extent_hooks", nullptr, nullptr, &given, sizeof given) == 0);
  CHECK(GetOf<extent_hooks_t*>("arena.%u.extent_hooks", 0) == &file_hooks);

  char* large = Filled(kLarge);
  CHECK(InFile(large) && InFile(large + kLarge - 1) && ArenaOf(large) == 0);
  char byte = 0;
  CHECK(pread(file, &byte, 1, large - file_base) == 1 && byte == 7);
  static char* small[kSmall];
  size_t in_file = 0;
  for (char*& p : small) in_file += InFile(p = Filled(2000));
  CHECK(in_file > kSmall / 4);  // the heap had reserved some room before
  free(large);
  CHECK(Do("arena.%u.purge", 0) == 0 && file_purges > purges);
  large = Filled(kLarge);
  CHECK(InFile(large));
  CHECK(malloc(kFileBytes) == nullptr);  // the hooks refuse it

  CHECK(mallctl("arena.0.extent_hooks", nullptr, nullptr, &before, sizeof before) == 0);
  char* const other = Filled(kFileBytes);
  CHECK(!InFile(other));
  free(other);
  free(large);
  for (char* p : small) {
    CHECK(p[0] == 7 && p[1999] == 7);
    free(p);
  }
  CHECK(Do("arena.%u.purge", 0) == 0);
  close(file);
}

// ---- as RocksDB does: the default hooks, one of them replaced after the arena was created ----

extent_alloc_t* original_alloc;
int wrapped_allocs;

void* WrappedAlloc(extent_hooks_t* hooks, void* wish, size_t size, size_t alignment, bool* zero,
                   bool* commit, unsigned arena) {
  void* const p = original_alloc(hooks, wish, size, alignment, zero, commit, arena);
  if (p != nullptr) madvise(p, size, MADV_DONTDUMP), ++wrapped_allocs;
  return p;
}

void CheckWrappedHooks() {
  const unsigned a = Create(nullptr), b = Create(nullptr);
  extent_hooks_t* const defaults = GetOf<extent_hooks_t*>("arena.%u.extent_hooks", a);
  CHECK(defaults == GetOf<extent_hooks_t*>("arena.%u.extent_hooks", b));
  CHECK(defaults == Get<extent_hooks_t*>("arena.0.extent_hooks"));
  original_alloc = defaults->alloc;
  static extent_hooks_t wrapped;
  wrapped = *defaults;
  wrapped.alloc = WrappedAlloc;
  // By mib, with the index in its place.
  size_t mib[3], length = 3;
  CHECK(mallctlnametomib("arena.0.extent_hooks", mib, &length) == 0 && length == 3);
  mib[1] = a;
  extent_hooks_t* hooks = &wrapped;
  extent_hooks_t* old = nullptr;
  size_t size = sizeof old;
  CHECK(mallctlbymib(mib, length, &old, &size, &hooks, sizeof hooks) == 0 && old == defaults);
  void* const p = mallocx(10 << 20, MALLOCX_ARENA(a));
  CHECK(p != nullptr && wrapped_allocs > 0);
  memset(p, 1, 10 << 20);
  dallocx(p, 0);
  CHECK(Do("arena.%u.destroy", a) == 0 && Do("arena.%u.destroy", b) == 0);
}

void CheckReset() {
  const unsigned arena = Create(nullptr);
  const int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 2000; ++i) CHECK(mallocx(i * 20, flags) != nullptr);
    CHECK(Do("arena.%u.reset", arena) == 0);
    Refresh();
    CHECK(GetOf<size_t>("stats.arenas.%u.small.allocated", arena) == 0);
    CHECK(GetOf<size_t>("stats.arenas.%u.mapped", arena) == 0);
  }
  CHECK(Do("arena.%u.destroy", arena) == 0);
  CHECK(Do("arena.%u.reset", 0) == EFAULT);
}

unsigned bound_arena;

void* BindThread(void*) {
  CHECK(mallctl("thread.arena", nullptr, nullptr, &bound_arena, sizeof bound_arena) == 0);
  CHECK(Get<unsigned>("thread.arena") == bound_arena);
  void* blocks[200];
  for (size_t i = 0; i < 200; ++i) {
    blocks[i] = i % 3 == 0 ? calloc(1, i * 50) : malloc(i * 50);
    CHECK(ArenaOf(blocks[i]) == bound_arena);
  }
  for (size_t i = 0; i < 200; ++i) free(blocks[i]);
  return nullptr;
}

void CheckThreads() {
  bound_arena = Create(nullptr);
  pthread_t threads[4];
  for (pthread_t& t : threads) CHECK(pthread_create(&t, nullptr, BindThread, nullptr) == 0);
  for (pthread_t t : threads) CHECK(pthread_join(t, nullptr) == 0);
  CHECK(ArenaOf(malloc(1)) == 0);
}

void CheckFork() {
  const unsigned arena = Create(nullptr);
  const int flags = MALLOCX_ARENA(arena);
  char* const p = static_cast<char*>(mallocx(5000, flags));
  memset(p, 3, 5000);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(p[4999] == 3);
    dallocx(p, flags);
    CHECK(mallocx(100000, flags) != nullptr);
    _exit(0);
  }
  ExpectCleanChild(child);
  dallocx(p, flags);
}

void CheckNamesAndDecay() {
  const unsigned arena = Create(nullptr);
  char name[32];
  snprintf(name, sizeof name, "arena.%u.name", arena);
  const char* text = "lua";
  CHECK(mallctl(name, nullptr, nullptr, &text, sizeof text) == 0);
  char buffer[32];
  char* at = buffer;
  size_t size = sizeof at;
  CHECK(mallctl(name, &at, &size, nullptr, 0) == 0 && strcmp(buffer, "lua") == 0);
  snprintf(name, sizeof name, "arena.%u.dirty_decay_ms", arena);
  ssize_t decay = 0;
  CHECK(mallctl(name, nullptr, nullptr, &decay, sizeof decay) == 0 && Get<ssize_t>(name) == 0);
  CHECK(Get<ssize_t>("arena.0.dirty_decay_ms") != 0);
  void* const p = mallocx(8 << 20, MALLOCX_ARENA(arena));
  memset(p, 1, 8 << 20);
  dallocx(p, 0);
  Refresh();
  CHECK(GetOf<size_t>("stats.arenas.%u.pdirty", arena) == 0);  // immediately
}

}  // namespace

int main() {
  if (OnSystemHeap()) return 0;
  CheckFileBacked();
  CheckWrappedHooks();
  CheckReset();
  CheckThreads();
  CheckFork();
  CheckNamesAndDecay();
  CheckSharedHeap();
  return 0;
}
