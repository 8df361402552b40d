// The system of the arena whose call is being served: its memory for objects, which comes in whole
// trackers, is asked of the arena's hooks; everything else of Linux.
#pragma once

#include <atomic>

#include "base/units.h"
#include "os/linux.h"

namespace granary {

class Arena;

struct Hooked {
  static constexpr size_t kFirstChunk = kTrackerBytes;  // what a hook is asked for at least

  static void* Map(size_t bytes, size_t alignment, void* hint) noexcept;
  static void Unmap(void* p, size_t bytes) noexcept;
  static bool Release(void* p, size_t bytes) noexcept;
  static bool Populate(void*, size_t) noexcept { return false; }
  static void AllowHuge(void*, size_t, bool) noexcept {}
  static void SplitHuge(void*) noexcept {}
  static size_t MovePages(void*, size_t, void*) noexcept { return 0; }
  static size_t PageSize() noexcept { return Linux::PageSize(); }
  static uint64_t NowMillis() noexcept { return Linux::NowMillis(); }
  static uint64_t ThreadNanos() noexcept { return Linux::ThreadNanos(); }
  static unsigned CpuCount() noexcept { return Linux::CpuCount(); }
  static size_t CpuLimit() noexcept { return Linux::CpuLimit(); }
  static bool AbortRestartables() noexcept { return Linux::AbortRestartables(); }
  static void Wait(std::atomic<uint32_t>& word, uint32_t value) noexcept {
    Linux::Wait(word, value);
  }
  static void Wake(std::atomic<uint32_t>& word) noexcept { Linux::Wake(word); }
};

static_assert(Os<Hooked>);

}  // namespace granary
