// Figures, and computations of programs that do not check for negative results.
#include <pthread.h>

#include <initializer_list>

#include "row.h"

namespace {

// The names read without an error, as T.
template <class T>
void ReadAll(const char* prefix, std::initializer_list<const char*> names) {
  for (const char* name : names) Get<T>(std::string(prefix) + name);
}

size_t At(const char* name, size_t index) { return Get<size_t>(Of(name, index)); }

// A heap with objects of many sizes, of which a third was freed.
class Load {
 public:
  Load() {
    for (size_t i = 0; i < kCount; ++i) blocks_[i] = malloc(i * 300);
    for (size_t i = 0; i < kCount; i += 3) free(blocks_[i]), blocks_[i] = nullptr;
    Refresh();
  }
  ~Load() {
    for (void* p : blocks_) free(p);
  }

 private:
  static constexpr size_t kCount = 2000;
  void* blocks_[kCount];
};

volatile bool over;

void* Churn(void* seed) {
  uint64_t state = reinterpret_cast<uintptr_t>(seed);
  void* blocks[500] = {};
  while (!over) {
    void*& p = blocks[NextRandom(&state) % 500];
    free(p);
    p = malloc(RandomSize(&state, 18));
  }
  for (void* p : blocks) free(p);
  return nullptr;
}

// TiKV subtracts active and metadata from resident; Redis multiplies the slabs of a bin by their
// objects.
void CheckSums() {
  Refresh();
  const size_t allocated = Get<size_t>("stats.allocated"), active = Get<size_t>("stats.active");
  CHECK(allocated > 0 && allocated <= active);
  CHECK(active + Get<size_t>("stats.metadata") <= Get<size_t>("stats.resident"));
  CHECK(Get<size_t>("stats.resident") <=
        Get<size_t>("stats.mapped") + Get<size_t>("stats.metadata"));
  CHECK(Get<size_t>("stats.arenas.4096.small.allocated") +
            Get<size_t>("stats.arenas.4096.large.allocated") ==
        allocated);
  for (unsigned bin = 0; bin < Get<unsigned>("arenas.nbins"); ++bin) {
    const size_t slabs = At("stats.arenas.4096.bins.#.curslabs", bin);
    const size_t regions = Get<uint32_t>(Of("arenas.bin.#.nregs", bin));
    CHECK(slabs * regions >= At("stats.arenas.4096.bins.#.curregs", bin));
    CHECK(At("stats.arenas.4096.bins.#.nonfull_slabs", bin) <= slabs);
  }
}

}  // namespace

ROW("stats.allocated") {
  ReadAll<size_t>("stats.", {"allocated", "active", "metadata", "metadata_thp", "resident",
                             "mapped", "retained"});
  const Load load;
  CheckSums();
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; ++i) {
    CHECK(pthread_create(&threads[i], nullptr, Churn, reinterpret_cast<void*>(i)) == 0);
  }
  for (int i = 0; i < 200; ++i) CheckSums();
  over = true;
  for (pthread_t t : threads) CHECK(pthread_join(t, nullptr) == 0);
}

ROW("stats.background_thread.num_threads") {
  Get<size_t>("stats.background_thread.num_threads");
  ReadAll<uint64_t>("stats.background_thread.", {"num_runs", "run_interval"});
  // ClickHouse reads a name that never existed.
  size_t value = 7, size = sizeof value;
  CHECK(mallctl("stats.background_thread.run_intervals", &value, &size, nullptr, 0) == ENOENT);
  CHECK(value == 7);
}

ROW("stats.arenas.i.nthreads") {
  const Load load;
  usleep(20000);
  Refresh();
  Get<unsigned>("stats.arenas.0.nthreads");
  CHECK(Get<uint64_t>("stats.arenas.0.uptime") > 0);
  Get<const char*>("stats.arenas.0.dss");
  ReadAll<ssize_t>("stats.arenas.0.", {"dirty_decay_ms", "muzzy_decay_ms"});
}

ROW("stats.arenas.i.pactive") {
  const Load load;
  CHECK(Get<size_t>("stats.arenas.4096.pactive") * Get<size_t>("arenas.page") ==
        Get<size_t>("stats.active"));
  ReadAll<size_t>("stats.arenas.0.", {"pactive", "pdirty", "pmuzzy"});
  ReadAll<size_t>("stats.arenas.4096.", {"pactive", "pdirty", "pmuzzy"});
}

ROW("stats.arenas.i.mapped") {
  const Load load;
  ReadAll<size_t>("stats.arenas.0.",
                  {"mapped", "retained", "pinned", "extent_avail", "base", "internal",
                   "metadata_edata", "metadata_rtree", "metadata_thp", "tcache_bytes",
                   "tcache_stashed_bytes", "resident", "abandoned_vm"});
  CHECK(Get<size_t>("stats.arenas.0.mapped") > 0 && Get<size_t>("stats.arenas.0.resident") > 0);
}

ROW("stats.arenas.i.dirty_npurge") {
  ReadAll<uint64_t>("stats.arenas.0.", {"dirty_npurge", "dirty_nmadvise", "dirty_purged",
                                        "muzzy_npurge", "muzzy_nmadvise", "muzzy_purged"});
  Refresh();
  const uint64_t before = Get<uint64_t>("stats.arenas.4096.dirty_purged");
  void* const p = Hide(malloc(20 << 20));
  memset(p, 1, 20 << 20);
  free(p);
  CHECK(Do("arena.4096.purge") == 0);
  Refresh();
  CHECK(Get<uint64_t>("stats.arenas.4096.dirty_purged") >= before + (20 << 20) / 4096);
}

ROW("stats.arenas.i.small.allocated") {
  const Load load;
  const size_t small = Get<size_t>("stats.arenas.0.small.allocated");
  const size_t large = Get<size_t>("stats.arenas.0.large.allocated");
  void* const p = Hide(malloc(1000));
  void* const q = Hide(malloc(5 << 20));
  Refresh();
  CHECK(Get<size_t>("stats.arenas.0.small.allocated") == small + malloc_usable_size(p));
  CHECK(Get<size_t>("stats.arenas.0.large.allocated") == large + malloc_usable_size(q));
  free(p);
  free(q);
}

ROW("stats.arenas.i.bins.j.nmalloc") {
  const Load load;
  for (unsigned bin = 0; bin < Get<unsigned>("arenas.nbins"); ++bin) {
    const uint64_t made = Get<uint64_t>(Of("stats.arenas.4096.bins.#.nmalloc", bin));
    const uint64_t freed = Get<uint64_t>(Of("stats.arenas.4096.bins.#.ndalloc", bin));
    CHECK(made - freed == At("stats.arenas.4096.bins.#.curregs", bin));
    CHECK(Get<uint64_t>(Of("stats.arenas.4096.bins.#.nrequests", bin)) >= made);
    Get<uint64_t>(Of("stats.arenas.0.bins.#.nmalloc", bin));
  }
}

ROW("stats.arenas.i.bins.j.curregs") {
  const Load load;
  CheckSums();
  size_t sum = 0;
  for (unsigned bin = 0; bin < Get<unsigned>("arenas.nbins"); ++bin) {
    sum += At("stats.arenas.4096.bins.#.curregs", bin) * At("arenas.bin.#.size", bin);
  }
  CHECK(sum == Get<size_t>("stats.arenas.4096.small.allocated"));
}

ROW("stats.arenas.i.lextents.j.nmalloc") {
  unsigned extent = 0;
  while (At("arenas.lextent.#.size", extent) < size_t{6} << 20) ++extent;
  Refresh();
  const size_t before = At("stats.arenas.4096.lextents.#.curlextents", extent);
  void* const p = Hide(malloc(6 << 20));
  Refresh();
  CHECK(At("stats.arenas.4096.lextents.#.curlextents", extent) == before + 1);
  const uint64_t made = Get<uint64_t>(Of("stats.arenas.4096.lextents.#.nmalloc", extent));
  CHECK(made - Get<uint64_t>(Of("stats.arenas.4096.lextents.#.ndalloc", extent)) == before + 1);
  Get<uint64_t>(Of("stats.arenas.4096.lextents.#.nrequests", extent));
  free(p);
}

// Valkey queries many objects in one call. Redis's own hint has a program of its own.
ROW("experimental.utilization.batch_query") {
  struct {
    size_t free, regions, size;
  } out[3];
  void* const small = mallocx(100, MALLOCX_TCACHE_NONE);
  void* const large = malloc(3 << 20);
  void* in[3] = {small, large, reinterpret_cast<void*>(0x1000)};
  const char* const name = "experimental.utilization.batch_query";
  size_t size = sizeof out;
  CHECK(mallctl(name, out, &size, in, sizeof in) == 0);
  CHECK(out[0].free < out[0].regions && out[0].size >= out[0].regions * nallocx(100, 0));
  CHECK(out[1].free == 0 && out[1].regions == 1 && out[1].size == 3 << 20);
  CHECK(out[2].free == 0 && out[2].regions == 0 && out[2].size == 0);
  size = sizeof out - 8;
  CHECK(mallctl(name, out, &size, in, sizeof in) == EINVAL);
  CHECK(mallctl(name, out, &size, in, 0) == EINVAL);
  dallocx(small, MALLOCX_TCACHE_NONE);
  free(large);
}
