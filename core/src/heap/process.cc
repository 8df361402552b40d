#include "heap/process.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "config/jemalloc_options.h"
#include "heap/heap.h"
#include "profiling/profile_files.h"

extern "C" void malloc_stats_print(void (*to)(void*, const char*), void* argument,
                                   const char* letters);

// A static program that writes nothing has none.
#pragma weak fflush

namespace granary {
namespace {

// As early as can be, so that ours is the last handler to run before a fork and the first after it.
void WatchForks() {
  pthread_atfork([] { heap.PrepareFork(); }, [] { heap.AfterFork(false); },
                 [] { heap.AfterFork(true); });
}

__attribute__((constructor)) void OnLoad() {
  heap.EnsureInit();
  if (options.prof) profile_files::AtStart();
}

void PrintAtExit() {
  const auto row = static_cast<size_t>(jemalloc::JemallocId::stats_print_opts);
  malloc_stats_print(nullptr, nullptr, jemalloc::TextOf(options, row));
}

// The handlers of exit ran already, but what is written out after them did not.
[[noreturn]] void EndWithError() {
  if (&fflush != nullptr) fflush(nullptr);
  _exit(1);
}

// A block freed twice or in its middle may still lie in a cache unseen.
__attribute__((destructor)) void OnExit() {
  if (options.stats_file) heap.upkeep().publisher().Remove();
  if (locks_held != 0) return;
  const bool leaky = options.prof && profile_files::AtExit();
  if (options.check_at_exit) heap.FlushCaches();
  if (options.stats_at_exit) PrintAtExit();
  if (leaky) EndWithError();
}

}  // namespace

void OnFirstUse() noexcept {
  threads.OnExit([](size_t index) { heap.front().Forget(index, true); });
  WatchForks();
  if (options.stats_file) heap.upkeep().publisher().Publish(Linux::NowMillis());
}

}  // namespace granary
