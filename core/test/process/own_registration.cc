// Where the C library does not register threads for restartable sequences, the library does: the
// threads share one cache for each CPU. With option rseq:false, and for threads that registered a
// structure of their own before, it registers none.
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include <atomic>

#include <granary/stats.h>

#include "../child.h"

namespace {

constexpr size_t kThreads = 64;
constexpr int kBlocks = 400;
constexpr char kNoLibrary[] = "glibc.pthread.rseq=0";

#if defined(__aarch64__)
constexpr unsigned kSignature = 0xd428bc00;
#else
constexpr unsigned kSignature = 0x53053053;
#endif

struct alignas(32) Area {
  char bytes[32];
};

pthread_barrier_t g_all_allocated;

uint64_t Figure(const char* name) {
  static const auto stat =
      reinterpret_cast<int (*)(const char*, uint64_t*)>(dlsym(RTLD_DEFAULT, "granary_stat"));
  CHECK(stat != nullptr);
  uint64_t value = 0;
  CHECK(stat(name, &value) == 0);
  return value;
}

size_t Cpus() { return static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF)); }

bool RefusedHere() {
  static Area probe;
  return syscall(SYS_rseq, &probe, sizeof probe, 0, kSignature) == -1;
}

void Exchange(uint64_t seed) {
  static void* volatile g_shared[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    const size_t size = RandomSize(&seed, 12) + 16;
    void* const p = malloc(size);
    CHECK(p != nullptr);
    FillPattern(p, size, seed);
    CHECK(PatternHolds(p, size, seed));
    free(__atomic_exchange_n(&g_shared[i], p, __ATOMIC_ACQ_REL));
  }
}

void* Allocate(void* seed) {
  for (int i = 0; i < 20; ++i) Exchange(reinterpret_cast<uint64_t>(seed));
  pthread_barrier_wait(&g_all_allocated);
  return nullptr;
}

// Registers a structure of its own before its first allocation.
void* AllocateRegistered(void* seed) {
  thread_local Area area;
  CHECK(syscall(SYS_rseq, &area, sizeof area, 0, kSignature) == 0);
  Allocate(seed);
  CHECK(syscall(SYS_rseq, &area, sizeof area, 1, kSignature) == 0);
  Exchange(7);
  return nullptr;
}

void RunThreads(void* (*body)(void*)) {
  pthread_t threads[kThreads];
  CHECK(pthread_barrier_init(&g_all_allocated, nullptr, kThreads) == 0);
  for (size_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], nullptr, body, reinterpret_cast<void*>(i)) == 0);
  }
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
}

void Detached() {
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
  static std::atomic<int> ended{0};
  for (int i = 0; i < 500; ++i) {
    pthread_t thread;
    auto body = [](void* seed) -> void* {
      Exchange(reinterpret_cast<uint64_t>(seed));
      ++ended;
      return nullptr;
    };
    CHECK(pthread_create(&thread, &attributes, body, reinterpret_cast<void*>(i)) == 0);
  }
  while (ended < 500) sched_yield();
}

int CachesByCpu() {
  CHECK(RefusedHere());  // the library has registered this thread
  RunThreads(Allocate);
  Detached();
  CHECK(Figure("caches") <= Cpus());
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    RunThreads(Allocate);
    CHECK(Figure("caches") <= Cpus());
    _exit(0);
  }
  ExpectCleanChild(child);
  return 0;
}

int OthersRegistered() {
  RunThreads(AllocateRegistered);
  return 0;
}

int CachesByThread() {
  RunThreads(Allocate);
  CHECK(Figure("caches") > Cpus());
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  EndIfStuck();
  free(Hide(malloc(1)));
  const char* const what = arguments[0];
  if (strcmp(what, "by CPU") == 0) return CachesByCpu();
  if (strcmp(what, "others") == 0) return OthersRegistered();
  if (strcmp(what, "by thread") == 0) return CachesByThread();
  if (OnSystemHeap()) SkipTest("the C library's heap has no caches for each CPU.");
  if (RefusedHere() && errno == ENOSYS) SkipTest("the kernel has no restartable sequences.");
  ExpectUnder({"GLIBC_TUNABLES", kNoLibrary, "by CPU", false});
  ExpectUnder({"GLIBC_TUNABLES", kNoLibrary, "others", false});
  ExpectUnder({"GRANARY_CONF", "rseq:false", "by thread", false});
  return 0;
}
