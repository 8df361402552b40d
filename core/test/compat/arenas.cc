// Names of arenas, of caches that a program makes itself, and of size classes.
#include <sys/mman.h>

#include "row.h"

namespace {

int FlagsOf(unsigned arena) { return MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE; }

// Frees 32 MiB of an arena whose pages stay dirty, and returns how many bytes of them are dirty.
size_t MakeDirty(unsigned arena) {
  CHECK(Set(Of("arena.#.dirty_decay_ms", arena), ssize_t{-1}) == 0);
  CHECK(Set(Of("arena.#.muzzy_decay_ms", arena), ssize_t{-1}) == 0);
  void* const p = mallocx(32 << 20, FlagsOf(arena));
  memset(p, 1, 32 << 20);
  dallocx(p, FlagsOf(arena));
  Refresh();
  return Get<size_t>(Of("stats.arenas.#.pdirty", arena)) * 4096;
}

size_t Dirty(unsigned arena) {
  Refresh();
  return Get<size_t>(Of("stats.arenas.#.pdirty", arena)) * 4096;
}

}  // namespace

// Redis exits if it cannot create a cache. One thread uses Lua's cache and another destroys it.
ROW("tcache.create") {
  const unsigned a = Get<unsigned>("tcache.create"), b = Get<unsigned>("tcache.create");
  CHECK(a != b);
  for (size_t size : {30, 5000, 100000}) {
    void* const p = mallocx(size, MALLOCX_TCACHE(a));
    CHECK(p != nullptr);
    dallocx(p, MALLOCX_TCACHE(b));
  }
  CHECK(Set("tcache.destroy", a) == 0 && Set("tcache.destroy", b) == 0);
}

ROW("tcache.flush") {
  const unsigned cache = Get<unsigned>("tcache.create");
  dallocx(mallocx(100, MALLOCX_TCACHE(cache)), MALLOCX_TCACHE(cache));
  CHECK(Set("tcache.flush", cache) == 0 && Set("tcache.destroy", cache) == 0);
  CHECK(Set("tcache.destroy", cache) == EFAULT && Set("tcache.flush", 4000u) == EFAULT);
}

ROW("arena.i.initialized") {
  CHECK(Get<bool>("arena.0.initialized") && Get<bool>("arena.4096.initialized"));
  CHECK(Get<bool>(Of("arena.#.initialized", NewArena())));
}

// Purges one arena, and all arenas by either number. Reset frees live objects. The index of a
// destroyed arena is used again.
ROW("arena.i.decay") {
  const unsigned arena = NewArena();
  const unsigned all = Get<unsigned>("arenas.narenas");
  for (const Name& name : {Of("arena.#.purge", arena), Of("arena.#.purge", MALLCTL_ARENAS_ALL),
                           Of("arena.#.purge", all)}) {
    CHECK(MakeDirty(arena) >= 32 << 20);
    CHECK(Do(name) == 0 && Dirty(arena) == 0);
  }
  CHECK(Do(Of("arena.#.decay", arena)) == 0);
  mallocx(100, FlagsOf(arena));
  mallocx(5 << 20, FlagsOf(arena));
  CHECK(Do(Of("arena.#.reset", arena)) == 0);
  Refresh();
  CHECK(Get<size_t>(Of("stats.arenas.#.small.allocated", arena)) == 0);
  CHECK(Get<size_t>(Of("stats.arenas.#.large.allocated", arena)) == 0);
  CHECK(Do(Of("arena.#.destroy", arena)) == 0 && NewArena() == arena);
  CHECK(Do("arena.0.destroy") != 0);
}

ROW("arena.i.dirty_decay_ms") {
  const unsigned arena = NewArena();
  for (const char* name : {"arena.#.dirty_decay_ms", "arena.#.muzzy_decay_ms"}) {
    for (const ssize_t value : {ssize_t{0}, ssize_t{-1}, ssize_t{5000}}) {
      CHECK(Set(Of(name, arena), value) == 0 && Get<ssize_t>(Of(name, arena)) == value);
    }
    CHECK(Set(Of(name, arena), ssize_t{-2}) != 0 && Get<ssize_t>(Of(name, arena)) == 5000);
  }
  MakeDirty(arena);
  CHECK(Set(Of("arena.#.dirty_decay_ms", arena), ssize_t{0}) == 0);
  CHECK(Set(Of("arena.#.muzzy_decay_ms", arena), ssize_t{0}) == 0);
  void* const p = mallocx(8 << 20, FlagsOf(arena));
  memset(p, 1, 8 << 20);
  dallocx(p, FlagsOf(arena));
  CHECK(Dirty(arena) < 8 << 20);  // immediately
}

namespace {

extent_alloc_t* original_alloc;
size_t hooked_bytes;

void* CountingAlloc(extent_hooks_t* hooks, void* at, size_t size, size_t alignment, bool* zero,
                    bool* commit, unsigned arena) {
  void* const p = original_alloc(hooks, at, size, alignment, zero, commit, arena);
  if (p == nullptr) return nullptr;
  CHECK(madvise(p, size, MADV_DONTDUMP) == 0);
  hooked_bytes += size;
  return p;
}

}  // namespace

// RocksDB replaces the default allocation function of an arena with its own.
ROW("arena.i.extent_hooks") {
  const unsigned arena = NewArena(), other = NewArena();
  extent_hooks_t* const shared = Get<extent_hooks_t*>(Of("arena.#.extent_hooks", arena));
  CHECK(shared == Get<extent_hooks_t*>(Of("arena.#.extent_hooks", other)));
  static extent_hooks_t mine = *shared;
  original_alloc = shared->alloc;
  mine.alloc = CountingAlloc;
  extent_hooks_t *old = nullptr, *given = &mine;
  size_t size = sizeof old;
  CHECK(mallctl(Of("arena.#.extent_hooks", arena).c_str(), &old, &size, &given, size) == 0);
  CHECK(old == shared && Get<extent_hooks_t*>(Of("arena.#.extent_hooks", arena)) == &mine);
  void* const p = mallocx(10 << 20, FlagsOf(arena));
  void* const q = mallocx(100, FlagsOf(arena));
  CHECK(p != nullptr && q != nullptr && hooked_bytes >= 10 << 20);
  memset(p, 1, 10 << 20);
  dallocx(p, FlagsOf(arena));
  dallocx(q, FlagsOf(arena));
  CHECK(Do(Of("arena.#.destroy", arena)) == 0);
}

ROW("arenas.narenas") {
  const unsigned count = Get<unsigned>("arenas.narenas");
  const unsigned arena = NewArena();
  CHECK(count >= 1 && arena < Get<unsigned>("arenas.narenas"));
}

ROW("arenas.dirty_decay_ms") {
  for (const char* name : {"arenas.dirty_decay_ms", "arenas.muzzy_decay_ms"}) {
    CHECK(Set(name, ssize_t{1234}) == 0 && Get<ssize_t>(name) == 1234);
  }
  const unsigned arena = NewArena();
  CHECK(Get<ssize_t>(Of("arena.#.dirty_decay_ms", arena)) == 1234);
  CHECK(Get<ssize_t>(Of("arena.#.muzzy_decay_ms", arena)) == 1234);
}

ROW("arenas.quantum") {
  CHECK(Get<size_t>("arenas.quantum") == 16);
  CHECK(Get<size_t>("arenas.page") == static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

ROW("arenas.nbins") {
  const unsigned bins = Get<unsigned>("arenas.nbins");
  CHECK(bins > 0 && Get<unsigned>("arenas.nhbins") >= bins);
  size_t value = 0, size = sizeof value;  // as ClickHouse reads it
  CHECK(mallctl("arenas.nbins", &value, &size, nullptr, 0) == EINVAL && value == bins && size == 4);
}

// One table serves these names, nallocx and malloc_usable_size.
ROW("arenas.bin.j.size") {
  size_t before = 0;
  for (unsigned bin = 0; bin < Get<unsigned>("arenas.nbins"); ++bin) {
    const size_t size = Get<size_t>(Of("arenas.bin.#.size", bin));
    CHECK(size > before && nallocx(size, 0) == size && nallocx(before + 1, 0) == size);
    void* const p = malloc(before + 1);
    CHECK(malloc_usable_size(p) == size);
    free(p);
    const size_t regions = Get<uint32_t>(Of("arenas.bin.#.nregs", bin));
    CHECK(regions > 0 && regions * size <= Get<size_t>(Of("arenas.bin.#.slab_size", bin)));
    CHECK(Get<uint32_t>(Of("arenas.bin.#.nshards", bin)) >= 1);
    before = size;
  }
}

ROW("arenas.nlextents") {
  size_t before = 0;
  for (unsigned extent = 0; extent < Get<unsigned>("arenas.nlextents"); ++extent) {
    const size_t size = Get<size_t>(Of("arenas.lextent.#.size", extent));
    CHECK(size > before);
    before = size;
  }
  CHECK(before > 0);
}

// Redis exits if it cannot create an arena, and reads its figures immediately.
ROW("arenas.create") {
  const unsigned arena = NewArena();
  Refresh();
  CHECK(Get<size_t>(Of("stats.arenas.#.pactive", arena)) == 0);
  CHECK(Get<size_t>(Of("stats.arenas.#.small.allocated", arena)) == 0);
  void* p = mallocx(3000, FlagsOf(arena));
  unsigned owner = 0;
  size_t size = sizeof owner;
  CHECK(mallctl("arenas.lookup", &owner, &size, &p, sizeof p) == 0 && owner == arena);
  Refresh();
  CHECK(Get<size_t>(Of("stats.arenas.#.small.allocated", arena)) == nallocx(3000, 0));
  CHECK(Get<size_t>(Of("stats.arenas.#.pactive", arena)) > 0);
  dallocx(p, FlagsOf(arena));
}
