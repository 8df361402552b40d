// Every name of mallctl that a known program reads or writes, its type, and jemalloc's result for
// wrong calls. One row per name of the compatibility table.
#include <jemalloc/jemalloc.h>
#include <malloc.h>
#include <pthread.h>

#include <initializer_list>

#include "check.h"

#pragma weak mallctl
#pragma weak mallctlbymib
#pragma weak mallctlnametomib
#pragma weak mallocx
#pragma weak dallocx
#pragma weak nallocx

namespace {

struct Row {
  const char* name;
  size_t size;  // bytes of its value
};

const Row kReadable[] = {
    {"version", 8},
    {"epoch", 8},
    {"background_thread", 1},
    {"max_background_threads", 8},
    {"thread.arena", 4},
    {"thread.allocated", 8},
    {"thread.deallocated", 8},
    {"thread.allocatedp", 8},
    {"thread.deallocatedp", 8},
    {"thread.tcache.enabled", 1},
    {"thread.tcache.max", 8},
    {"thread.peak.read", 8},
    {"config.cache_oblivious", 1},
    {"config.debug", 1},
    {"config.fill", 1},
    {"config.lazy_lock", 1},
    {"config.malloc_conf", 8},
    {"config.opt_safety_checks", 1},
    {"config.prof", 1},
    {"config.prof_libgcc", 1},
    {"config.prof_libunwind", 1},
    {"config.prof_frameptr", 1},
    {"config.stats", 1},
    {"config.utrace", 1},
    {"config.xmalloc", 1},
    {"opt.abort", 1},
    {"opt.dss", 8},
    {"opt.narenas", 4},
    {"opt.junk", 8},
    {"opt.zero", 1},
    {"opt.tcache", 1},
    {"opt.tcache_max", 8},
    {"opt.background_thread", 1},
    {"opt.dirty_decay_ms", 8},
    {"opt.muzzy_decay_ms", 8},
    {"opt.percpu_arena", 8},
    {"opt.oversize_threshold", 8},
    {"opt.prof", 1},
    {"opt.prof_final", 1},
    {"opt.prof_leak", 1},
    {"opt.prof_prefix", 8},
    {"opt.lg_prof_interval", 8},
    {"opt.lg_prof_sample", 8},
    {"opt.retain", 1},
    {"opt.stats_print_opts", 8},
    {"opt.thp", 8},
    {"opt.malloc_conf.global_var", 8},
    {"opt.malloc_conf.env_var", 8},
    {"arena.0.initialized", 1},
    {"arena.4096.initialized", 1},
    {"arena.0.dss", 8},
    {"arena.0.oversize_threshold", 8},
    {"arena.0.dirty_decay_ms", 8},
    {"arena.0.muzzy_decay_ms", 8},
    {"arena.0.extent_hooks", 8},
    {"arena.0.retain_grow_limit", 8},
    {"arenas.narenas", 4},
    {"arenas.dirty_decay_ms", 8},
    {"arenas.muzzy_decay_ms", 8},
    {"arenas.quantum", 8},
    {"arenas.page", 8},
    {"arenas.hugepage", 8},
    {"arenas.tcache_max", 8},
    {"arenas.nbins", 4},
    {"arenas.nhbins", 4},
    {"arenas.bin.0.size", 8},
    {"arenas.bin.0.nregs", 4},
    {"arenas.bin.0.slab_size", 8},
    {"arenas.bin.0.nshards", 4},
    {"arenas.nlextents", 4},
    {"arenas.lextent.0.size", 8},
    {"stats.allocated", 8},
    {"stats.active", 8},
    {"stats.metadata", 8},
    {"stats.metadata_edata", 8},
    {"stats.metadata_rtree", 8},
    {"stats.metadata_thp", 8},
    {"stats.resident", 8},
    {"stats.mapped", 8},
    {"stats.retained", 8},
    {"stats.pinned", 8},
    {"stats.zero_reallocs", 8},
    {"stats.background_thread.num_threads", 8},
    {"stats.background_thread.num_runs", 8},
    {"stats.background_thread.run_interval", 8},
    {"stats.mutexes.ctl.num_ops", 8},
    {"stats.mutexes.prof.max_num_thds", 4},
    {"stats.arenas.0.nthreads", 4},
    {"stats.arenas.0.uptime", 8},
    {"stats.arenas.0.dss", 8},
    {"stats.arenas.0.dirty_decay_ms", 8},
    {"stats.arenas.0.muzzy_decay_ms", 8},
    {"stats.arenas.0.pactive", 8},
    {"stats.arenas.0.pdirty", 8},
    {"stats.arenas.4096.pmuzzy", 8},
    {"stats.arenas.0.mapped", 8},
    {"stats.arenas.0.retained", 8},
    {"stats.arenas.0.resident", 8},
    {"stats.arenas.0.base", 8},
    {"stats.arenas.0.internal", 8},
    {"stats.arenas.0.tcache_bytes", 8},
    {"stats.arenas.0.abandoned_vm", 8},
    {"stats.arenas.4096.dirty_purged", 8},
    {"stats.arenas.4096.muzzy_purged", 8},
    {"stats.arenas.0.dirty_npurge", 8},
    {"stats.arenas.0.dirty_nmadvise", 8},
    {"stats.arenas.0.hpa_sec_bytes", 8},
    {"stats.arenas.0.small.allocated", 8},
    {"stats.arenas.0.large.allocated", 8},
    {"stats.arenas.0.small.nmalloc", 8},
    {"stats.arenas.0.large.ndalloc", 8},
    {"stats.arenas.0.bins.0.nmalloc", 8},
    {"stats.arenas.4096.bins.0.ndalloc", 8},
    {"stats.arenas.4096.bins.0.curregs", 8},
    {"stats.arenas.4096.bins.0.curslabs", 8},
    {"stats.arenas.4096.bins.0.nonfull_slabs", 8},
    {"stats.arenas.0.bins.0.nslabs", 8},
    {"stats.arenas.0.bins.0.mutex.num_ops", 8},
    {"stats.arenas.0.lextents.0.nmalloc", 8},
    {"stats.arenas.4096.lextents.0.ndalloc", 8},
    {"stats.arenas.0.lextents.0.curlextents", 8},
    {"stats.arenas.0.extents.0.ndirty", 8},
    {"stats.arenas.0.mutexes.base.num_wait", 8},
    {"approximate_stats.active", 8},
};

const char* const kVoid[] = {"thread.tcache.flush", "thread.peak.reset", "thread.idle",
                             "stats.mutexes.reset", "arena.0.decay",     "arena.0.purge",
                             "arena.4096.purge",    "arena.4096.decay",  "arena.4097.purge",
                             "granary.reset_peaks"};

// Unknown names, and names that are incomplete.
const char* const kUnknown[] = {"",
                                "nonsense",
                                "stats",
                                "stats.arenas",
                                "stats.arenas.0",
                                "stats.allocated.more",
                                "arenas.bin.9999.size",
                                "arenas.bin.x.size",
                                "arenas.lextent.9999.size",
                                "stats.arenas.0.small.resident",
                                "stats.arenas.4097.pactive",
                                "stats.arenas.4000.pactive",
                                "stats.background_thread.run_intervals",
                                "opt.purge",
                                "prof.log_start",
                                "prof.stats.bins.0.live"};

template <class T>
T Get(const char* name) {
  T value{};
  size_t size = sizeof value;
  if (mallctl(name, &value, &size, nullptr, 0) != 0 || size != sizeof value) {
    fprintf(stderr, "mallctl(\"%s\") failed\n", name);
    CHECK(!"a name could not be read");
  }
  return value;
}

template <class T>
int Set(const char* name, T value) {
  return mallctl(name, nullptr, nullptr, &value, sizeof value);
}

void Refresh() {
  uint64_t epoch = 1;
  size_t size = sizeof epoch;
  CHECK(mallctl("epoch", &epoch, &size, &epoch, size) == 0);
}

void CheckReadable() {
  for (const Row& row : kReadable) {
    unsigned char value[16];
    memset(value, 0xee, sizeof value);
    size_t size = row.size;
    const int error = mallctl(row.name, value, &size, nullptr, 0);
    if (error != 0 || size != row.size)
      fprintf(stderr, "%s: error %d, size %zu\n", row.name, error, size);
    CHECK(error == 0 && size == row.size && value[row.size] == 0xee);
    // A wrong size: the call stores the bytes that fit and the copied size, and returns EINVAL.
    for (size_t wrong : {row.size - 1, row.size * 2}) {
      memset(value, 0xee, sizeof value);
      size = wrong;
      CHECK(mallctl(row.name, value, &size, nullptr, 0) == EINVAL);
      CHECK(size == (wrong < row.size ? wrong : row.size) && value[size] == 0xee);
    }
    size_t mib[7];
    size_t length = 7;
    CHECK(mallctlnametomib(row.name, mib, &length) == 0);
    size_t dots = 1;
    for (const char* at = row.name; *at != 0; ++at) dots += *at == '.';
    CHECK(length == dots);
    size = row.size;
    if (mallctlbymib(mib, length, value, &size, nullptr, 0) != 0) fprintf(stderr, "%s\n", row.name);
    CHECK(mallctlbymib(mib, length, value, &size, nullptr, 0) == 0 && size == row.size);
  }
}

void CheckVoid() {
  for (const char* name : kVoid) {
    if (mallctl(name, nullptr, nullptr, nullptr, 0) != 0) fprintf(stderr, "%s\n", name);
    CHECK(mallctl(name, nullptr, nullptr, nullptr, 0) == 0);
    uint64_t value = 0;
    size_t size = sizeof value;
    CHECK(mallctl(name, &value, &size, nullptr, 0) == EPERM);
    CHECK(mallctl(name, nullptr, nullptr, &value, size) == EPERM);
  }
  char all[32];
  snprintf(all, sizeof all, "arena.%u.purge", Get<unsigned>("arenas.narenas"));
  CHECK(mallctl(all, nullptr, nullptr, nullptr, 0) == 0);
  CHECK(mallctl("arena.4000.purge", nullptr, nullptr, nullptr, 0) == EFAULT);
}

void CheckUnknown() {
  for (const char* name : kUnknown) {
    uint64_t value = 77;
    size_t size = 5;
    if (mallctl(name, &value, &size, nullptr, 0) != ENOENT) fprintf(stderr, "known: %s\n", name);
    CHECK(mallctl(name, &value, &size, nullptr, 0) == ENOENT && value == 77 && size == 5);
  }
}

void CheckWriting() {
  uint64_t value = 1;
  CHECK(mallctl("version", nullptr, nullptr, &value, sizeof value) == EPERM);
  CHECK(mallctl("tcache.destroy", &value, &value, nullptr, 0) == EPERM);
  CHECK(mallctl("epoch", nullptr, nullptr, &value, 4) == EINVAL);
  // One buffer for the old and the new value, as some callers pass.
  bool flag = false;
  size_t size = sizeof flag;
  CHECK(mallctl("background_thread", &flag, &size, &flag, sizeof flag) == 0 && flag);
  CHECK(!Get<bool>("background_thread"));
  CHECK(Set("background_thread", true) == 0 && Get<bool>("background_thread"));
  CHECK(Set("max_background_threads", size_t{0}) == 0 &&
        Get<size_t>("max_background_threads") == 0);
  CHECK(Set("max_background_threads", size_t{2}) == 0 &&
        Get<size_t>("max_background_threads") == 2);
  for (const char* name :
       {"arenas.dirty_decay_ms", "arena.0.dirty_decay_ms", "arena.0.muzzy_decay_ms"}) {
    const ssize_t before = Get<ssize_t>(name);
    CHECK(Set(name, ssize_t{-1}) == 0 && Get<ssize_t>(name) == -1);
    CHECK(Set(name, ssize_t{-2}) != 0 && Get<ssize_t>(name) == -1);
    CHECK(Set(name, ssize_t{1} << 40) == 0 && Get<ssize_t>(name) > 0);
    CHECK(Set(name, before) == 0);
  }
  // Granary's own names: any option that can change, and the peaks.
  CHECK(Set("granary.set", "dirty_decay_ms:1234,soft_limit:1073741824") == 0);
  CHECK(Get<ssize_t>("arenas.dirty_decay_ms") == 1234);
  CHECK(Set("granary.set", "dirty_decay_ms:1000,soft_limit:0") == 0);
  CHECK(Set("granary.set", "no_such_option:1") == EINVAL);
  CHECK(mallctl("granary.set", &value, &size, nullptr, 0) == EPERM);
  const uint64_t epoch = Get<uint64_t>("epoch");
  Refresh();
  CHECK(Get<uint64_t>("epoch") == epoch + 1);
}

void CheckCaches() {
  const unsigned a = Get<unsigned>("tcache.create"), b = Get<unsigned>("tcache.create");
  CHECK(a != b);
  void* const p = mallocx(100, MALLOCX_TCACHE(a));
  dallocx(p, MALLOCX_TCACHE(b));
  CHECK(Set("tcache.flush", a) == 0 && Set("tcache.destroy", a) == 0);
  CHECK(Set("tcache.destroy", a) == EFAULT && Set("tcache.flush", 4000u) == EFAULT);
  CHECK(Get<unsigned>("tcache.create") == a);
  CHECK(Set("tcache.destroy", a) == 0 && Set("tcache.destroy", b) == 0);
}

void* CountInThread(void*) {
  uint64_t* const allocated = Get<uint64_t*>("thread.allocatedp");
  uint64_t* const deallocated = Get<uint64_t*>("thread.deallocatedp");
  for (size_t size : {1, 100, 5000, 200000, 3000000}) {
    const uint64_t a = *allocated, d = *deallocated;
    void* p = Hide(malloc(size));
    CHECK(*allocated == a + malloc_usable_size(p) && *deallocated == d);
    const size_t before = malloc_usable_size(p);
    p = Hide(realloc(p, size * 2));
    CHECK(*allocated == a + before + malloc_usable_size(p) && *deallocated == d + before);
    free(p);
    CHECK(*deallocated == *allocated - a + d);
    free(Hide(calloc(1, size)));
    free(Hide(aligned_alloc(64, size)));
    delete static_cast<char*>(Hide(new char));
    CHECK(*deallocated - d == *allocated - a);
  }
  CHECK(mallctl("thread.peak.reset", nullptr, nullptr, nullptr, 0) == 0);
  free(Hide(malloc(100000)));
  CHECK(Get<uint64_t>("thread.peak.read") >= 100000);
  return nullptr;
}

// Without other threads: an object that a thread without a cache frees may serve the next thread.
void CheckWithoutCache() {
  bool enabled = false;
  CHECK(Set("thread.tcache.enabled", enabled) == 0 && !Get<bool>("thread.tcache.enabled"));
  void* const p = Hide(malloc(100));
  free(p);
  CHECK(Hide(malloc(100)) == p);
  free(p);
  CHECK(Set("thread.tcache.enabled", true) == 0);
}

void CheckThreads() {
  pthread_t threads[4];
  for (pthread_t& t : threads) CHECK(pthread_create(&t, nullptr, CountInThread, nullptr) == 0);
  for (pthread_t t : threads) CHECK(pthread_join(t, nullptr) == 0);
  CheckWithoutCache();
  // folly's probe: the counter must have changed when malloc(1) returns.
  uint64_t* const counter = Get<uint64_t*>("thread.allocatedp");
  const uint64_t before = *counter;
  void* const p = Hide(malloc(1));
  CHECK(*counter != before);
  free(p);
}

void CheckInvariants() {
  void* blocks[1000];
  for (size_t i = 0; i < 1000; ++i) blocks[i] = malloc(i * 700);
  for (size_t i = 0; i < 1000; i += 3) free(blocks[i]), blocks[i] = nullptr;
  Refresh();
  const size_t allocated = Get<size_t>("stats.allocated"), active = Get<size_t>("stats.active");
  const size_t resident = Get<size_t>("stats.resident"), metadata = Get<size_t>("stats.metadata");
  CHECK(allocated > 0 && allocated <= active && active + metadata <= resident);
  CHECK(Get<size_t>("stats.arenas.4096.small.allocated") +
            Get<size_t>("stats.arenas.4096.large.allocated") ==
        allocated);
  CHECK(Get<size_t>("stats.arenas.4096.pactive") * Get<size_t>("arenas.page") == active);
  size_t sum = 0;
  for (unsigned bin = 0; bin < Get<unsigned>("arenas.nbins"); ++bin) {
    char name[64];
    const auto of = [&](const char* format) {
      snprintf(name, sizeof name, format, bin);
      return name;
    };
    const size_t size = Get<size_t>(of("arenas.bin.%u.size"));
    const size_t regions = Get<uint32_t>(of("arenas.bin.%u.nregs"));
    CHECK(nallocx(size, 0) == size && size * regions <= Get<size_t>(of("arenas.bin.%u.slab_size")));
    const size_t used = Get<size_t>(of("stats.arenas.4096.bins.%u.curregs"));
    const size_t slabs = Get<size_t>(of("stats.arenas.4096.bins.%u.curslabs"));
    CHECK(slabs * regions >= used &&
          Get<size_t>(of("stats.arenas.4096.bins.%u.nonfull_slabs")) <= slabs);
    CHECK(Get<uint64_t>(of("stats.arenas.4096.bins.%u.nmalloc")) -
              Get<uint64_t>(of("stats.arenas.4096.bins.%u.ndalloc")) ==
          used);
    sum += used * size;
  }
  CHECK(sum == Get<size_t>("stats.arenas.4096.small.allocated"));
  // Nothing changes between two epochs.
  for (void* p : blocks) free(p);
  CHECK(Get<size_t>("stats.allocated") == allocated);
  Refresh();
  CHECK(Get<size_t>("stats.allocated") < allocated);
}

void CheckLargeExtents() {
  void* const p = malloc(5 << 20);
  Refresh();
  unsigned extent = 0;
  char name[64];
  for (;; ++extent) {
    snprintf(name, sizeof name, "arenas.lextent.%u.size", extent);
    if (Get<size_t>(name) >= size_t{5} << 20) break;
  }
  snprintf(name, sizeof name, "stats.arenas.0.lextents.%u.curlextents", extent);
  CHECK(Get<size_t>(name) == 1);
  free(p);
  Refresh();
  CHECK(Get<size_t>(name) == 0);
}

}  // namespace

int main() {
  if (OnSystemHeap()) return 0;
  CHECK(strstr(Get<const char*>("version"), "5.") == Get<const char*>("version"));
  CHECK(strstr(Get<const char*>("version"), "Granary") != nullptr);
  CheckReadable();
  CheckVoid();
  CheckUnknown();
  CheckWriting();
  CheckCaches();
  CheckThreads();
  CheckInvariants();
  CheckLargeExtents();
  return 0;
}
