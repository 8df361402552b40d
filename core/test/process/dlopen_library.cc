// A program that runs on the C library's heap opens the library by dlopen, uses it by name from
// several threads and across fork, and closes it while threads that used it have not ended.
#include <dlfcn.h>
#include <pthread.h>

#include "../check.h"
#include "../child.h"

namespace {

struct Heap {
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  size_t (*malloc_usable_size)(void*);
};

Heap g_heap;

template <typename Function>
void Find(void* library, const char* name, Function& function) {
  void* address = dlsym(library, name);
  CHECK(address != nullptr);
  Dl_info owner;
  CHECK(dladdr(address, &owner) != 0);
  CHECK(strstr(owner.dli_fname, "libc.so") == nullptr);
  function = reinterpret_cast<Function>(address);
}

// A preload of this test would hide what it tests.
void StartAgainWithoutPreload(char** argv) {
  if (getenv("LD_PRELOAD") == nullptr || getenv("LD_PRELOAD")[0] == '\0') return;
  CHECK(unsetenv("LD_PRELOAD") == 0);
  execv("/proc/self/exe", argv);
  CHECK(!"the program could not start itself again");
}

void UseHeap(uint64_t seed) {
  void* blocks[200] = {};
  uint64_t random = seed;
  for (int i = 0; i < 20000; ++i) {
    const size_t at = NextRandom(&random) % 200;
    if (blocks[at] != nullptr) {
      CHECK(PatternHolds(blocks[at], g_heap.malloc_usable_size(blocks[at]), at));
      g_heap.free(blocks[at]);
    }
    const size_t size = RandomSize(&random, 18);
    blocks[at] = i % 3 == 0 ? g_heap.calloc(1, size) : g_heap.malloc(size);
    if (i % 7 == 0) blocks[at] = g_heap.realloc(blocks[at], size * 2 + 1);
    CHECK(blocks[at] != nullptr);
    FillPattern(blocks[at], g_heap.malloc_usable_size(blocks[at]), at);
  }
  for (void* block : blocks) g_heap.free(block);
}

void* UseBothHeaps(void* seed) {
  void* system = malloc(10000);
  FillPattern(system, 10000, 4);
  UseHeap(reinterpret_cast<uint64_t>(seed));
  CHECK(PatternHolds(system, 10000, 4));
  free(system);
  return nullptr;
}

void RunThreads() {
  pthread_t threads[8];
  for (size_t i = 0; i < 8; ++i) {
    CHECK(pthread_create(&threads[i], nullptr, UseBothHeaps, reinterpret_cast<void*>(i)) == 0);
  }
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
}

void RunChild(bool use) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    EndIfStuck();
    if (use) UseHeap(77);
    free(malloc(1000));
    _exit(0);
  }
  ExpectCleanChild(child);
}

struct Gate {
  pthread_barrier_t used;
  pthread_barrier_t closed;
} g_gate;

void* OutliveTheHandle(void*) {
  UseHeap(5);
  pthread_barrier_wait(&g_gate.used);
  pthread_barrier_wait(&g_gate.closed);
  return nullptr;
}

void CloseWhileAThreadLives(void* library) {
  pthread_barrier_init(&g_gate.used, nullptr, 2);
  pthread_barrier_init(&g_gate.closed, nullptr, 2);
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, OutliveTheHandle, nullptr) == 0);
  pthread_barrier_wait(&g_gate.used);
  CHECK(dlclose(library) == 0);
  pthread_barrier_wait(&g_gate.closed);
  CHECK(pthread_join(thread, nullptr) == 0);
  RunChild(false);
}

}  // namespace

int main(int, char** argv) {
  const char* path = getenv("GRANARY_LIB");
  if (path == nullptr || path[0] == '\0') SkipTest("GRANARY_LIB does not name the library.");
  StartAgainWithoutPreload(argv);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != nullptr);
  Find(library, "malloc", g_heap.malloc);
  Find(library, "free", g_heap.free);
  Find(library, "calloc", g_heap.calloc);
  Find(library, "realloc", g_heap.realloc);
  Find(library, "malloc_usable_size", g_heap.malloc_usable_size);
  UseHeap(1);
  RunThreads();
  RunChild(true);
  CloseWhileAThreadLives(library);
}
