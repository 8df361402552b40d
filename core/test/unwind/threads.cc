// Threads: small and large stacks, code that runs when threads end, and modules that are loaded and
// unloaded meanwhile.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>

#include "../check.h"
#include "compare.h"
#include "shapes.h"

namespace {

pthread_key_t g_key;

__attribute__((noinline)) void Deep(int depth) {
  char block[500];
  memset(block, depth, sizeof block);
  if (depth > 0) Deep(depth - 1);
  if (depth % 10 == 0) ExpectSame("thread");
  Hide(block);
}

void* Run(void*) {
  CHECK(pthread_setspecific(g_key, &g_key) == 0);
  Deep(60);
  ExpectSame("thread");
  return nullptr;
}

void RunThread(size_t stack_bytes) {
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, stack_bytes) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, &attributes, Run, nullptr) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
}

std::atomic<bool> g_stop;

// Each of its stacks includes a module that the other thread has just unloaded.
void* LoadAndUnload(void*) {
  const char* const names[] = {"libgcc_s.so.1", "libm.so.6", "libresolv.so.2", "libutil.so.1"};
  while (!g_stop) {
    void* handles[4];
    for (size_t i = 0; i < 4; ++i) handles[i] = dlopen(names[i], RTLD_NOW);
    for (void* handle : handles) {
      if (handle != nullptr) dlclose(handle);
    }
    granary::unwind::Refresh();
  }
  return nullptr;
}

void WalkWhileModulesChange() {
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, LoadAndUnload, nullptr) == 0);
  for (int i = 0; i < 500; ++i) Deep(20);
  g_stop = true;
  CHECK(pthread_join(thread, nullptr) == 0);
}

}  // namespace

void TestThreads() {
  CHECK(pthread_key_create(&g_key, [](void*) { ExpectSame("end of a thread"); }) == 0);
  for (const size_t kib : {192, 512, 8192}) RunThread(kib << 10);
  WalkWhileModulesChange();
}
