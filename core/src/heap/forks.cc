#include "heap/forks.h"

#include <pthread.h>

#include "arena/arenas.h"
#include "base/compiler.h"
#include "front/thread_settings.h"
#include "layers/layers.h"
#include "reflect/publish.h"
#include "upkeep/upkeep.h"

namespace granary::heap {
namespace {

// Takes all locks in the order in which a call takes them on its way down.
GRANARY_SELDOM void PrepareFork() {
  upkeep.PrepareFork();
  layers.front().StopAll();
  LockArenas();
  layers.depot().opening().Lock();
  layers.ForEachMutex([](Mutex<Linux>& m) { m.Lock(); });
}

// The front finds the cache of the calling thread by its thread_area, which the settings of the
// thread hide.
void ForgetOtherThreads() {
  const bool special = HasThreadSettings();
  if (special) thread_area = thread_settings.area;
  threads.ForgetOthers([](size_t index) { layers.front().Forget(index, false); });
  if (special) thread_area = SpecialArea();
}

GRANARY_SELDOM void AfterFork(bool child) {
  if (child) {
    layers.ForEachMutex([](Mutex<Linux>& m) { m.Reset(); });
    layers.depot().opening().Reset();
    layers.front().ResetLocks();
    layers.central().ForgetHidden();
    layers.pages().ForgetBusy();
    ForgetOtherThreads();
  } else {
    layers.ForEachMutex([](Mutex<Linux>& m) { m.Unlock(); });
    layers.depot().opening().Unlock();
  }
  UnlockArenas(child);
  layers.front().ResumeAll();
  upkeep.AfterFork(child);
  if (!child) return;
  publisher.Forget();
  locks_held = 0;
}

}  // namespace

void WatchForks() noexcept {
  pthread_atfork([] { PrepareFork(); }, [] { AfterFork(false); }, [] { AfterFork(true); });
}

}  // namespace granary::heap
