#include "compat/jemalloc/ctl_thread.h"

#include <errno.h>

#include "compat/jemalloc/arena_index.h"
#include "compat/jemalloc/ctl_value.h"
#include "config/options.h"
#include "front/thread_settings.h"
#include "heap/heap.h"

namespace granary::jemalloc {
namespace {

uint64_t thread_cache_max;

uint64_t ReadThreadBytes(uint32_t which) {
  UseThreadSettings();
  return which == 0 ? thread_settings.allocated : thread_settings.deallocated;
}

int WriteThreadArena(uint64_t arena) {
  if (!ArenaExists(arena)) return EFAULT;
  if (arena == 0 && !HasThreadSettings()) return 0;
  UseThreadSettings();
  thread_settings.arena = static_cast<uint32_t>(arena);
  return 0;
}

int WriteThreadCache(bool enabled) {
  if (enabled && !HasThreadSettings()) return 0;
  UseThreadSettings();
  thread_settings.uncached = !enabled;
  return 0;
}

}  // namespace

int ReadThread(Handler handler, uint32_t argument, uint64_t* out) noexcept {
  switch (handler) {
    case Handler::kThreadArena:
      return Put(HasThreadSettings() ? thread_settings.arena : 0, out);
    case Handler::kThreadBytes:
      return Put(ReadThreadBytes(argument), out);
    case Handler::kThreadBytesAt:
      UseThreadSettings();
      return Put(
          AddressOf(argument == 0 ? &thread_settings.allocated : &thread_settings.deallocated),
          out);
    case Handler::kThreadCacheEnabled:
      return Put(options.Caches() && !(HasThreadSettings() && thread_settings.uncached), out);
    case Handler::kThreadCacheMax:
      return Put(
          thread_cache_max != 0 ? thread_cache_max : static_cast<uint64_t>(options.cache_max), out);
    case Handler::kThreadPeak:
      UseThreadSettings();
      return Put(thread_settings.peak, out);
    default:
      return kOtherReader;
  }
}

int WriteThread(Handler handler, uint64_t value) noexcept {
  switch (handler) {
    case Handler::kThreadArena:
      return WriteThreadArena(value);
    case Handler::kThreadCacheEnabled:
      return WriteThreadCache(value != 0);
    case Handler::kThreadCacheMax:
      thread_cache_max = value;
      return 0;
    default:
      return kOtherReader;
  }
}

int CallThread(Handler handler) noexcept {
  switch (handler) {
    case Handler::kThreadCacheFlush:
      heap::FlushCaches();
      return 0;
    case Handler::kThreadPeakReset:
      UseThreadSettings();
      thread_settings.peak = 0;
      thread_settings.peak_from = thread_settings.allocated - thread_settings.deallocated;
      return 0;
    case Handler::kThreadIdle:
      heap::FlushCaches();
      PurgeArena(HasThreadSettings() ? thread_settings.arena : 0, false);
      return 0;
    default:
      return kOtherReader;
  }
}

}  // namespace granary::jemalloc
