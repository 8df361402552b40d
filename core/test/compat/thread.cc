// Names about the whole process and about the calling thread.
#include <pthread.h>
#include <sys/wait.h>

#include "row.h"

namespace {

// Runs the function in a thread of its own.
void InThread(void (*act)()) {
  pthread_t thread;
  CHECK(pthread_create(
            &thread, nullptr,
            [](void* f) -> void* { return reinterpret_cast<void (*)()>(f)(), nullptr; },
            reinterpret_cast<void*>(act)) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
}

}  // namespace

ROW("version") {
  const char* const text = Get<const char*>("version");
  int major, minor, bugfix, revisions;
  char hash[64];
  CHECK(sscanf(text, "%d.%d.%d-%d-g%63s", &major, &minor, &bugfix, &revisions, hash) == 5);
  CHECK(major == JEMALLOC_VERSION_MAJOR && strstr(text, "Granary") != nullptr);
}

// Figures do not change until the epoch is written.
ROW("epoch") {
  Refresh();
  const uint64_t epoch = Get<uint64_t>("epoch");
  const size_t before = Get<size_t>("stats.allocated");
  void* const p = Hide(malloc(50 << 20));
  CHECK(Get<size_t>("stats.allocated") == before && Get<uint64_t>("epoch") == epoch);
  uint64_t value = 7;
  size_t size = sizeof value;
  CHECK(mallctl("epoch", &value, &size, &value, size) == 0);
  CHECK(Get<uint64_t>("epoch") == epoch + 1);
  CHECK(Get<size_t>("stats.allocated") >= before + (50 << 20));
  free(p);
}

// Redis writes true, also in a child of fork; a read returns the value that was written last.
ROW("background_thread") {
  for (const bool on : {true, false, true}) {
    CHECK(Set("background_thread", on) == 0 && Get<bool>("background_thread") == on);
  }
  const pid_t child = fork();
  if (child == 0) _exit(Set("background_thread", true) == 0 ? 0 : 1);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

ROW("max_background_threads") {
  CHECK(Get<size_t>("max_background_threads") >= 1);
  CHECK(Set("max_background_threads", size_t{3}) == 0);
  CHECK(Get<size_t>("max_background_threads") == 3);
}

// The thread allocates from the arena that it chose.
ROW("thread.arena") {
  CHECK(Get<unsigned>("thread.arena") == 0);
  static unsigned arena = NewArena();
  InThread([] {
    CHECK(Set("thread.arena", arena) == 0 && Get<unsigned>("thread.arena") == arena);
    for (size_t size : {20, 3000, 200000, 5000000}) {
      void* p = Hide(malloc(size));
      unsigned owner = 0;
      size_t owner_size = sizeof owner;
      CHECK(mallctl("arenas.lookup", &owner, &owner_size, &p, sizeof p) == 0 && owner == arena);
      free(p);
    }
  });
  CHECK(Get<unsigned>("thread.arena") == 0 && Set("thread.arena", 4000u) != 0);
}

ROW("thread.allocated") {
  const uint64_t a = Get<uint64_t>("thread.allocated"), d = Get<uint64_t>("thread.deallocated");
  void* const p = Hide(malloc(1000));
  const size_t usable = malloc_usable_size(p);
  CHECK(Get<uint64_t>("thread.allocated") == a + usable);
  CHECK(Get<uint64_t>("thread.deallocated") == d);
  free(p);
  CHECK(Get<uint64_t>("thread.deallocated") == d + usable);
}

// The counter has changed when malloc(1) returns, and another thread may read it.
ROW("thread.allocatedp") {
  static volatile uint64_t* allocated;
  static volatile uint64_t* freed;
  allocated = Get<volatile uint64_t*>("thread.allocatedp");
  freed = Get<volatile uint64_t*>("thread.deallocatedp");
  for (size_t size : {1, 100, 5000, 200000, 3000000}) {
    const uint64_t a = *allocated, d = *freed;
    void* const p = Hide(malloc(size));
    CHECK(*allocated == a + malloc_usable_size(p) && *freed == d);
    free(p);
    CHECK(*freed - d == *allocated - a);
  }
  static uint64_t seen;
  seen = *allocated;
  InThread([] {
    CHECK(*allocated >= seen);
    CHECK(Get<volatile uint64_t*>("thread.allocatedp") != allocated);
  });
}

ROW("thread.tcache.enabled") {
  CHECK(Get<bool>("thread.tcache.enabled"));
  InThread([] {
    CHECK(Set("thread.tcache.enabled", false) == 0 && !Get<bool>("thread.tcache.enabled"));
    void* const p = Hide(malloc(100));
    free(p);
    CHECK(Hide(malloc(100)) == p);  // p returned to its slab, where it is the lowest free object
    free(p);
    CHECK(Set("thread.tcache.enabled", true) == 0 && Get<bool>("thread.tcache.enabled"));
  });
  CHECK(Get<bool>("thread.tcache.enabled"));
}

ROW("thread.tcache.flush") {
  for (int i = 0; i < 1000; ++i) free(Hide(malloc(100)));
  CHECK(Do("thread.tcache.flush") == 0);
  uint64_t value = 0;
  size_t size = sizeof value;
  CHECK(mallctl("thread.tcache.flush", &value, &size, nullptr, 0) == EPERM);
}

// DuckDB reads a thread's peak since the last reset.
ROW("thread.peak.read") {
  CHECK(Do("thread.peak.reset") == 0);
  const uint64_t before = Get<uint64_t>("thread.peak.read");
  void* const p = Hide(malloc(1000000));
  free(p);
  CHECK(Get<uint64_t>("thread.peak.read") >= before + 1000000);
  CHECK(Do("thread.peak.reset") == 0);
  CHECK(Get<uint64_t>("thread.peak.read") < 1000000);
}

ROW("thread.idle") {
  for (int i = 0; i < 1000; ++i) free(Hide(malloc(100)));
  CHECK(Do("thread.idle") == 0);
}

ROW("config.cache_oblivious") {
  for (const char* name :
       {"cache_oblivious", "debug", "fill", "lazy_lock", "opt_safety_checks", "prof", "prof_libgcc",
        "prof_libunwind", "prof_frameptr", "stats", "utrace", "xmalloc"}) {
    Get<bool>(std::string("config.") + name);
  }
  CHECK(Get<bool>("config.prof") && Get<bool>("config.stats"));
  CHECK(*Get<const char*>("config.malloc_conf") == 0);
}
