#include "profiler/sampled_threads.h"

#include <atomic>

#include "config/jemalloc_options.h"
#include "front/thread_settings.h"
#include "samples/table.h"

namespace granary::sampled_threads {
namespace {

using jemalloc::JemallocId;

std::atomic<int> new_threads{-1};  // -1: the value of the option

int64_t OptionOf(JemallocId id) { return jemalloc::ValueOf(options, static_cast<size_t>(id)); }

}  // namespace

bool NewThreadsAreSampled() noexcept {
  const int set = new_threads.load(std::memory_order_relaxed);
  return set >= 0 ? set != 0 : OptionOf(JemallocId::prof_thread_active_init) != 0;
}
void SetNewThreadsAreSampled(bool on) noexcept {
  new_threads.store(on ? 1 : 0, std::memory_order_relaxed);
}

bool ThreadIsSampled() noexcept {
  return thread_settings.sampled == Sampled::kUndecided ? NewThreadsAreSampled()
                                                        : thread_settings.sampled == Sampled::kYes;
}

bool TakesSamples() noexcept {
  if (thread_settings.in_hook) return false;
  thread_settings.sampled = ThreadIsSampled() ? Sampled::kYes : Sampled::kNo;
  return thread_settings.sampled == Sampled::kYes;
}

size_t MostDepth() noexcept {
  const auto depth = static_cast<uint64_t>(OptionOf(JemallocId::prof_bt_max));
  return depth < samples::kMostDepth ? depth : samples::kMostDepth;
}

}  // namespace granary::sampled_threads
