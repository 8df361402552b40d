#include "entry/process.h"

#include <pthread.h>

#include "entry/heap.h"

namespace granary {
namespace {

// As early as can be, so that ours is the last handler to run before a fork and the first after it.
void WatchForks() {
  pthread_atfork([] { heap.PrepareFork(); }, [] { heap.AfterFork(false); },
                 [] { heap.AfterFork(true); });
}

__attribute__((constructor)) void OnLoad() { heap.EnsureInit(); }

// A block freed twice or in its middle may still lie in a cache unseen.
__attribute__((destructor)) void OnExit() {
  if (options.check_at_exit && locks_held == 0) heap.FlushCaches();
}

}  // namespace

void OnFirstUse() noexcept {
  threads.OnExit([](size_t index) { heap.front().Forget(index, true); });
  WatchForks();
}

}  // namespace granary
