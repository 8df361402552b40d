// The operating system of the tests: real memory, refusals on demand, a clock that only tests
// advance, and a record of the calls. A call that no correct layer makes fails the test.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "os/linux.h"
#include "os/os.h"

namespace granary {

inline constexpr size_t kNever = ~size_t{0};

struct FakeOsCounts {
  size_t map = 0, unmap = 0, purge = 0, move = 0, abort = 0, split = 0;
  size_t committed_bytes = 0;
  size_t released_bytes = 0, most_released = 0;  // by all calls, and by one
};

struct FakeOsState {
  std::mutex mutex;
  std::map<uintptr_t, size_t> ranges;
  std::set<uintptr_t> small_only;  // regions that may have no huge page
  FakeOsCounts counts;
  size_t refuse_map_from = kNever, refuse_map_to = kNever, refuse_purge_from = kNever;
  std::atomic<uint64_t> now{0};
  uint64_t worked = 0, populate_nanos = 0;
  unsigned cpus = 2;
  size_t page_size = Linux::PageSize();
  bool can_abort = true;
  bool can_move = true;
  bool can_guard = true;
  size_t most_committed = kNever, moves_until_loss = kNever;
  std::function<void()> during_purge, during_commit;
};

struct FakeOs {
  static void* Map(size_t bytes, size_t alignment, void* hint) noexcept {
    std::lock_guard hold(state.mutex);
    if (Refused(state.counts.map++, state.refuse_map_from, state.refuse_map_to)) return nullptr;
    if (bytes > kMostMapped) return nullptr;
    void* const p = Linux::Map(bytes, alignment, hint);
    if (p == nullptr) return nullptr;
    // otherwise one written word would cost the test two megabytes
    Linux::AllowHuge(p, bytes, false);
    state.ranges[AddressOf(p)] = bytes;
    ForgetAdvice(p, bytes);
    return p;
  }

  static void* Reserve(size_t bytes, size_t alignment, void* hint) noexcept {
    std::lock_guard hold(state.mutex);
    if (Refused(state.counts.map++, state.refuse_map_from, state.refuse_map_to)) return nullptr;
    if (bytes > kMostMapped) return nullptr;
    void* const p = Linux::Reserve(bytes, alignment, hint);
    if (p == nullptr) return nullptr;
    Linux::AllowHuge(p, bytes, false);
    state.ranges[AddressOf(p)] = bytes;
    ForgetAdvice(p, bytes);
    return p;
  }

  static bool Commit(void* p, size_t bytes) noexcept {
    if (state.during_commit) std::exchange(state.during_commit, nullptr)();
    std::lock_guard hold(state.mutex);
    GRANARY_CHECK(Holds(p, bytes));
    if (bytes > state.most_committed - state.counts.committed_bytes) return false;
    state.counts.committed_bytes += bytes;
    return Linux::Commit(p, bytes);
  }

  static void Decommit(void* p, size_t bytes) noexcept {
    std::lock_guard hold(state.mutex);
    GRANARY_CHECK(Holds(p, bytes));
    state.counts.committed_bytes -= bytes;
    Linux::Decommit(p, bytes);
  }

  static void Unmap(void* p, size_t bytes) noexcept {
    std::lock_guard hold(state.mutex);
    ++state.counts.unmap;
    const auto range = state.ranges.find(AddressOf(p));
    GRANARY_CHECK(range != state.ranges.end() && range->second == bytes);
    state.ranges.erase(range);
    Linux::Unmap(p, bytes);
  }

  static bool Purge(void* p, size_t bytes) noexcept {
    if (state.during_purge) std::exchange(state.during_purge, nullptr)();
    std::lock_guard hold(state.mutex);
    GRANARY_CHECK(bytes > 0 && AddressOf(p) % kMinOsPage == 0 && bytes % kMinOsPage == 0);
    GRANARY_CHECK(Holds(p, bytes));
    if (Refused(state.counts.purge++, state.refuse_purge_from, kNever)) return false;
    state.counts.released_bytes += bytes;
    if (bytes > state.counts.most_released) state.counts.most_released = bytes;
    return Linux::Purge(p, bytes);
  }

  // On any kernel, by the protection of the pages.
  static bool Guard(void* p, size_t bytes) noexcept {
    std::lock_guard hold(state.mutex);
    GRANARY_CHECK(bytes > 0 && Holds(p, bytes));
    if (!state.can_guard || !Linux::Purge(p, bytes)) return false;
    Linux::Decommit(p, bytes);
    return true;
  }
  static void Unguard(void* p, size_t bytes) noexcept {
    std::lock_guard hold(state.mutex);
    GRANARY_CHECK(Holds(p, bytes));
    GRANARY_CHECK(Linux::Commit(p, bytes));
  }

  static void Clear(void* p, size_t bytes) noexcept {
    GRANARY_CHECK(IsMapped(p, bytes));
    Linux::Clear(p, bytes);
  }

  static bool Populate(void* p, size_t bytes) noexcept {
    std::lock_guard hold(state.mutex);
    GRANARY_CHECK(Holds(p, bytes));
    state.worked += state.populate_nanos;
    return Linux::Populate(p, bytes);
  }

  static void AllowHuge(void* p, size_t bytes, bool allow) noexcept {
    std::lock_guard hold(state.mutex);
    GRANARY_CHECK(Holds(p, bytes));
    ForgetAdvice(p, bytes);
    for (size_t i = 0; !allow && i < bytes; i += kTrackerBytes) {
      state.small_only.insert(AddressOf(p) + i);
    }
  }

  static void SplitHuge(void* p) noexcept {
    std::lock_guard hold(state.mutex);
    GRANARY_CHECK(Holds(p, kMinOsPage));
    ++state.counts.split;
  }

  static MoveResult MovePages(void* from, size_t bytes, void* to) noexcept {
    std::lock_guard hold(state.mutex);
    ++state.counts.move;
    GRANARY_CHECK(Holds(from, bytes) && Holds(to, bytes));
    if (!state.can_move) return {};
    if (state.moves_until_loss-- > 0) return Linux::MovePages(from, bytes, to);
    Lose(to);
    return {0, true};
  }

  static size_t PageSize() noexcept { return state.page_size; }
  static uint64_t NowMillis() noexcept { return state.now.load(std::memory_order_relaxed); }
  static uint64_t NowNanos() noexcept { return NowMillis() * 1000000; }
  static uint64_t ThreadNanos() noexcept { return state.worked; }
  static unsigned CpuCount() noexcept { return state.cpus; }
  static size_t CpuLimit() noexcept { return kMaxCpus; }
  static bool AbortRestartables() noexcept {
    std::lock_guard hold(state.mutex);
    ++state.counts.abort;
    return state.can_abort && Linux::AbortRestartables();
  }
  static void Wait(std::atomic<uint32_t>& word, uint32_t value) noexcept {
    Linux::Wait(word, value);
  }
  static void Wake(std::atomic<uint32_t>& word) noexcept { Linux::Wake(word); }

  // Unmaps everything and clears all settings and records.
  static void Reset() {
    std::lock_guard hold(state.mutex);
    for (const auto& [at, bytes] : state.ranges) Linux::Unmap(reinterpret_cast<void*>(at), bytes);
    state.ranges.clear();
    state.small_only.clear();
    state.counts = FakeOsCounts{};
    state.refuse_map_from = state.refuse_map_to = state.refuse_purge_from = kNever;
    state.now = 0;
    state.populate_nanos = 0;
    state.cpus = 2;
    state.page_size = Linux::PageSize();
    state.can_abort = state.can_move = state.can_guard = true;
    state.most_committed = state.moves_until_loss = kNever;
    state.during_purge = state.during_commit = nullptr;
  }

  // Refuses `count` calls of Map, beginning with the call that has index `first` (from 0) from now
  // on.
  static void RefuseMap(size_t first, size_t count) {
    std::lock_guard hold(state.mutex);
    state.refuse_map_from = state.counts.map + first;
    state.refuse_map_to = count == kNever ? kNever : state.refuse_map_from + count;
  }
  static void RefusePurge(size_t first) {
    std::lock_guard hold(state.mutex);
    state.refuse_purge_from = state.counts.purge + first;
  }
  // Runs `act` in the middle of the next release, in place of another thread.
  static void DuringPurge(std::function<void()> act) { state.during_purge = std::move(act); }
  static void DuringCommit(std::function<void()> act) { state.during_commit = std::move(act); }
  // Limits the sum of all committed bytes.
  static void SetMostCommitted(size_t bytes) { state.most_committed = bytes; }
  // Makes the move after the next `moves` fail, and gives the target to a mapping of another
  // thread: a later access to the target ends the test.
  static void LoseTargetAfter(size_t moves) { state.moves_until_loss = moves; }
  static void AllowAll() {
    std::lock_guard hold(state.mutex);
    state.refuse_map_from = state.refuse_map_to = state.refuse_purge_from = kNever;
  }
  static void SetNow(uint64_t millis) { state.now = millis; }
  // Sets the CPU time that each Populate takes.
  static void SetPopulateNanos(uint64_t nanos) { state.populate_nanos = nanos; }
  // What PageSize answers from now on; the memory keeps the pages of the machine.
  static void SetPageSize(size_t bytes) { state.page_size = bytes; }
  static void SetCpus(unsigned cpus) { state.cpus = cpus; }
  static void SetCanAbort(bool can) { state.can_abort = can; }
  static void SetCanMove(bool can) { state.can_move = can; }
  static void SetCanGuard(bool can) { state.can_guard = can; }
  static FakeOsCounts counts() {
    std::lock_guard hold(state.mutex);
    return state.counts;
  }
  static size_t MappedBytes() {
    std::lock_guard hold(state.mutex);
    size_t sum = 0;
    for (const auto& range : state.ranges) sum += range.second;
    return sum;
  }
  static bool MayBeHuge(const void* tracker) {
    std::lock_guard hold(state.mutex);
    return state.small_only.count(AddressOf(tracker)) == 0;
  }
  static bool IsMapped(const void* p, size_t bytes) {
    std::lock_guard hold(state.mutex);
    return Holds(p, bytes);
  }

 private:
  static constexpr size_t kMostMapped = 64 * kGiB;

  static inline FakeOsState state;

  static bool Refused(size_t call, size_t from, size_t to) { return call >= from && call < to; }

  static void ForgetAdvice(const void* p, size_t bytes) {
    state.small_only.erase(state.small_only.lower_bound(AddressOf(p)),
                           state.small_only.lower_bound(AddressOf(p) + bytes));
  }

  static void Lose(void* tracker) {
    Linux::Unmap(tracker, kTrackerBytes);
    void* const other = Linux::Reserve(kTrackerBytes, kTrackerBytes, tracker);
    GRANARY_CHECK(other == tracker);
    const uintptr_t at = AddressOf(tracker);
    const auto range = std::prev(state.ranges.upper_bound(at));
    const uintptr_t end = range->first + range->second;
    range->second = at - range->first;
    if (range->second == 0) state.ranges.erase(range);
    if (at + kTrackerBytes < end) state.ranges[at + kTrackerBytes] = end - at - kTrackerBytes;
  }

  // Neighbouring ranges count as one.
  static bool Holds(const void* p, size_t bytes) {
    uintptr_t at = AddressOf(p);
    const uintptr_t end = at + bytes;
    while (at < end) {
      auto range = state.ranges.upper_bound(at);
      if (range == state.ranges.begin()) return false;
      --range;
      if (range->first + range->second <= at) return false;
      at = range->first + range->second;
    }
    return true;
  }
};

static_assert(Os<FakeOs>);

}  // namespace granary
