// The background thread has as much stack in a program with much thread-local storage, which glibc
// takes from the stack of each thread, as in any other.
#include <pthread.h>

#include <atomic>
#include <thread>
#include <vector>

#include "../check.h"
#include "granary/granary.h"

#pragma weak granary_add_threshold

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kStack = size_t{40} << 10;

thread_local char storage[size_t{100} << 10];
std::atomic<bool> called{false};

// Any thread of the program may make this call; only the background thread counts.
void UseStack(void*, size_t, int) {
  char name[32] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  if (strcmp(name, "granary") != 0) return;
  char frame[kStack];
  memset(frame, 1, sizeof frame);
  Hide(frame);
  called = true;
}

// Slow paths, so that the heap gets its background thread, and memory held, that rises and falls.
void GrowAndShrink() {
  std::vector<void*> objects;
  for (size_t done = 0; done < 24 * kMiB; done += 1000) {
    objects.push_back(memset(malloc(1000), 1, 1000));
  }
  for (void* object : objects) free(object);
  usleep(10000);
}

}  // namespace

int main() {
#if !defined(__GLIBC__)
  return kExitSkipped;
#else
  if (&granary_add_threshold == nullptr) SkipTest("the callbacks are Granary's own.");
  memset(Hide(storage), 1, sizeof storage);
  std::thread silent([] { pause(); });
  // The decay of the freed memory, which only the background thread sees, crosses these amounts.
  for (size_t i = 1; i <= 8; ++i) {
    CHECK(granary_add_threshold(i * 2 * kMiB, UseStack, nullptr) == 0);
  }
  for (int round = 0; round < 3; ++round) GrowAndShrink();
  for (int wait = 0; wait < 2000 && !called; ++wait) usleep(10000);
  CHECK(called);
  _exit(0);
#endif
}
