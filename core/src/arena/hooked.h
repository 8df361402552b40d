// The operating system (os/os.h) of an arena. Memory for objects comes in whole regions from the
// hooks of the arena that the thread's present call is for; everything else comes from Linux.
#pragma once

#include <atomic>

#include "base/units.h"
#include "os/linux.h"

namespace granary {

class Arena;

struct Hooked {
  static constexpr size_t kFirstChunk = kTrackerBytes;  // the smallest size of a call to a hook

  static void* Map(size_t bytes, size_t alignment, void* hint) noexcept;
  // Memory from hooks is usable immediately.
  static void* Reserve(size_t bytes, size_t alignment, void* hint) noexcept {
    return Map(bytes, alignment, hint);
  }
  static bool Commit(void*, size_t) noexcept { return true; }
  static void Decommit(void*, size_t) noexcept {}
  static void Unmap(void* p, size_t bytes) noexcept;
  static bool Purge(void* p, size_t bytes) noexcept;
  static bool Guard(void*, size_t) noexcept { return false; }
  static void Unguard(void*, size_t) noexcept {}
  static void Clear(void* p, size_t bytes) noexcept { __builtin_memset(p, 0, bytes); }
  static bool Populate(void*, size_t) noexcept { return false; }
  static void AllowHuge(void*, size_t, bool) noexcept {}
  static void SplitHuge(void*) noexcept {}
  static MoveResult MovePages(void*, size_t, void*) noexcept { return {}; }
  static size_t PageSize() noexcept { return Linux::PageSize(); }
  static uint64_t NowMillis() noexcept { return Linux::NowMillis(); }
  static uint64_t NowNanos() noexcept { return Linux::NowNanos(); }
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
