#include "heap/forks.h"

#include <pthread.h>

#include "arena/arenas.h"
#include "base/compiler.h"
#include "front/thread_settings.h"
#include "heap/internal.h"
#include "inspection/publish.h"
#include "layers/layers.h"
#include "os/backing_file.h"
#include "upkeep/upkeep.h"

// glibc's lock of the list of streams, which the same thread may take again; musl has none.
extern "C" {
void _IO_list_lock() __attribute__((weak));
void _IO_list_unlock() __attribute__((weak));
void _IO_list_resetlock() __attribute__((weak));
// Absent before 2.32: true while the program has never made a thread.
extern char __libc_single_threaded __attribute__((weak));
}

namespace granary::heap {
namespace {

// The condition by which fork itself decides: the child of a process with one thread keeps the lock
// in the state that its thread has it in.
bool TakesListOfStreams() {
  return &_IO_list_lock != nullptr &&
         (&__libc_single_threaded == nullptr || __libc_single_threaded == 0);
}

// The state of the fork in progress. Only one thread writes it: the thread that holds all locks,
// or, in a fork that takes no locks, the only thread that allocates.
struct {
  uint64_t signals_before;
  bool has_locks, has_list;
} in_progress;

// A signal handler that forks may have interrupted the allocator, whose locks this thread then
// holds and will release in both processes. No other thread can hold one.
bool InterruptedAlone() {
  return locks_held != 0 && threads.registered() < 2 && !upkeep.BackgroundRuns();
}

// Takes all locks in the order in which an allocation takes them from the top layer down. Takes the
// lock that `fork` itself will take before these: a thread that holds it may wait for a stream,
// whose user may wait for the heap. Blocks signals: a signal handler that also forks would wait for
// its own thread.
GRANARY_SELDOM void PrepareFork() {
  const uint64_t before = Linux::BlockSignals();
  if (InterruptedAlone()) {
    if (backing_file != nullptr) backing_file->PrepareFork(false);
    in_progress = {before, false, false};
    return;
  }
  Linux::PrepareToAbort();
  const bool takes_list = TakesListOfStreams();
  if (takes_list) _IO_list_lock();
  upkeep.PrepareFork();
  layers.front().StopAll();
  LockArenas();
  layers.depot().opening().Lock();
  layers.ForEachMutex([](Mutex<Linux>& m) { m.Lock(); });
  if (backing_file != nullptr) backing_file->PrepareFork(true);
  in_progress = {before, true, takes_list};
}

// The front layer finds the cache of the calling thread by its thread_area, which the thread
// settings hide.
void ForgetOtherThreads() {
  const bool has_settings = HasThreadSettings();
  if (has_settings) thread_area = thread_settings.area;
  threads.ForgetOthers([](size_t index) { layers.front().Forget(index, false); });
  if (has_settings) thread_area = SettingsArea();
}

void ReleaseLocks(bool child) {
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
  if (child) locks_held = 0;
}

void ReleaseListOfStreams(bool child) {
  if (child) return _IO_list_resetlock();
  _IO_list_unlock();
}

GRANARY_SELDOM void AfterFork(bool child) {
  const auto fork = in_progress;  // another thread may fork as soon as the locks are free
  if (backing_file != nullptr) backing_file->AfterFork(child, fork.has_locks);
  if (child && backing_file != nullptr && options.hardened) hardened::ClearQuarantine();
  if (fork.has_locks) ReleaseLocks(child);
  if (fork.has_list) ReleaseListOfStreams(child);
  if (child) publisher.Forget();
  Linux::RestoreSignals(fork.signals_before);
}

}  // namespace

void WatchForks() noexcept {
  pthread_atfork([] { PrepareFork(); }, [] { AfterFork(false); }, [] { AfterFork(true); });
}

}  // namespace granary::heap
