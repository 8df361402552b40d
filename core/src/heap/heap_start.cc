// Start and end of the heap: the first use, the program's constructors, and exit.

#include <stdio.h>
#include <unistd.h>

#include "config/jemalloc_options.h"
#include "heap/forks.h"
#include "heap/heap.h"
#include "heap/internal.h"
#include "heap/settings.h"
#include "heap/stay_loaded.h"
#include "inspection/control.h"
#include "inspection/descriptor.h"
#include "inspection/note.h"
#include "inspection/publish.h"
#include "os/backing_file.h"
#include "profiler/profile_files.h"
#include "profiler/profiler.h"
#include "unwind/unwind.h"
#include "upkeep/apply_options.h"
#include "upkeep/trim.h"
#include "upkeep/upkeep.h"

extern "C" void malloc_stats_print(void (*to)(void*, const char*), void* argument,
                                   const char* letters);

// Absent from a static program that does not use stdio.
#pragma weak fflush

namespace granary::heap {
namespace {

GRANARY_SELDOM void OpenBacking() {
  if (BackingFile::Open(backing_path)) return;
  options.Set(static_cast<size_t>(OptionId::backing), 0, Source::kDefault);
  if (options.abort_conf) Die("option backing failed (see above) and abort_conf is set");
}

// The caller holds no lock.
void OnFirstUse() {
  threads.OnExit([](size_t index) { layers.front().Forget(index, true); });
  WatchForks();
  if (options.stats_file) publisher.Publish(Linux::NowMillis());
}

__attribute__((constructor)) void OnLoad() {
  EnsureInit();
  StayLoaded();
  Upkeep::MeasureThreadStorage();
  if (!options.prof && options.guard_sample == 0) return;
  unwind::Refresh();
  profiler::ApplyGuardSample();
  if (!options.prof) return;
  profiler::Start(static_cast<uint64_t>(options.prof_sample), 0);
  if (!options.prof_active) profiler::Pause();
}

// Calls the public function, which a program may interpose.
void PrintAtExit() {
  const auto row = static_cast<size_t>(jemalloc::JemallocId::stats_print_opts);
  malloc_stats_print(nullptr, nullptr, jemalloc::TextOf(options, row));
}

// The handlers of exit have run, but text that they wrote to stdio after their last flush is still
// buffered.
[[noreturn]] void EndWithError() {
  if (&fflush != nullptr) fflush(nullptr);
  _exit(1);
}

__attribute__((destructor)) void OnExit() {
  if (options.stats_file) publisher.Remove();
  if (locks_held != 0) return;
  const bool leaky = options.prof && profile_files::AtExit();
  // A double free or an unaligned free may still be undetected in a cache.
  if (options.check_at_exit && options.hardened) hardened::FlushQuarantine();
  if (options.check_at_exit) granary::FlushCaches();
  if (options.stats_at_exit) PrintAtExit();
  if (leaky) EndWithError();
}

}  // namespace

void Init() noexcept {
  {
    Locked hold(layers.init_mutex());
    if (layers.ready()) return;
    LoadSettings();
    if (options.backing != 0) OpenBacking();
    upkeep.Bind({Serve, [](uint64_t now) noexcept { publisher.Poll(now); }, RetainDescriptor});
    layers.Bind();
    ApplyOptions();
    if (options.hardened) hardened::Init();
    layers.SetReady();
  }
  OnFirstUse();
}

}  // namespace granary::heap
