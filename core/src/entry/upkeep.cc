#include "entry/upkeep.h"

#include <pthread.h>
#include <signal.h>

#include "entry/heap.h"
#include "entry/jemalloc/arena.h"
#include "entry/layout.h"
#include "unwind/unwind.h"

// Absent from a program that is not linked to libpthread (glibc before 2.34).
#pragma weak pthread_create

// In the note (entry/note.h): the same word of the same file in every process.
extern "C" const uint32_t granary_bell __attribute__((visibility("hidden")));

namespace granary {
namespace {

constexpr size_t kHelperFrom = 8 * kMiB;    // heaps smaller than this need no thread,
constexpr size_t kHelperAlone = 64 * kMiB;  // nor do these where the program has but one
constexpr uint64_t kChildMillis = 2000;     // nor a forked child that lives shorter than this
constexpr size_t kLeastDirty = 16 * kMiB;   // what may stay dirty without a helper, at any size
constexpr size_t kStepBytes = 512 * kKiB;   // given back in one step on a slow path
constexpr uint32_t kPollsPerLook = 64;      // slow paths between two looks at the clock
constexpr uint32_t kQuietWindows = 20;      // ticks without work before the helper sleeps
constexpr uint64_t kDormantMillis = 60000;  // how long the helper sleeps at most
constexpr uint64_t kGrowthMillis =
    12;  // a heap that took no tracker for so long has stopped growing
constexpr size_t kLimitedFrom = 16 * kMiB;  // smaller heaps do not ask the system for its limits
constexpr size_t kLeastMap = 64 * kMiB;     // of a heap, before its map is worth looking at
constexpr uint64_t kLookMillis = 500;       // from one look at the limits to the next
constexpr size_t kUrgent = 2 * kMiB;        // above the ceiling
constexpr size_t kConcession = kMiB;        // what a heap that has nothing to give may grow by then
constexpr size_t kPayFrom = 256 * kKiB;     // at a time and without a helper,
constexpr size_t kPayHelpedFrom = kMiB;     // with one
constexpr size_t kPayStep = 64 * kKiB;      // what a slow path pays at most
constexpr size_t kPaySlabs = 16;            // and how many slabs it looks at for that
constexpr uint32_t kSteps = kNumSmall + 1;
constexpr uint32_t kBellValue = 1;  // of granary_bell, for ever

uint64_t DormantMillis() { return options.stats_file ? Publisher::kEveryMillis : kDormantMillis; }

uint64_t WindowMillis() {
  const int64_t decay = options.DecayMillis();
  return decay < 0 ? ~uint64_t{0} / 4 : static_cast<uint64_t>(decay) / 2;
}

// When the helper looks again: at the window's end, or sooner where that is far.
uint64_t TickBefore(uint64_t end) {
  const uint64_t soon = Linux::NowMillis() + kLookMillis;
  return soon < end ? soon : end;
}

}  // namespace

size_t Upkeep::DirtyBound() noexcept {
  const size_t quarter = heap.pages().used_bytes() / 4;
  return quarter > kLeastDirty ? quarter : kLeastDirty;
}

bool Upkeep::HelperPays() noexcept {
  if (!options.background_thread || helper_.load(std::memory_order_relaxed) != Helper::kNone)
    return false;
  const size_t size = heap.pages().used_bytes() + heap.pages().dirty_bytes();
  const size_t from = options.stats_file ? 0 : threads.seen() >= 2 ? kHelperFrom : kHelperAlone;
  return size >= from && (not_before_ == 0 || Linux::NowMillis() >= not_before_);
}

// What is held, without the pages that payments took out of slabs.
size_t Upkeep::Level() noexcept {
  const size_t held = Held();
  const size_t credit = credit_.load(std::memory_order_relaxed);
  return held > credit ? held - credit : 0;
}

// How far the heap has risen above what it held when the window began, or was paid for since.
size_t Upkeep::UnpaidGrowth() noexcept {
  const size_t level = Level();
  const size_t paid = paid_.load(std::memory_order_relaxed);
  const size_t base = paid > kFreeGrowth ? paid : kFreeGrowth;
  return level > base ? level - base : 0;
}

// Free pages of slabs, from the sizes with the most of them, at once.
size_t Upkeep::ReleaseFromSlabs(size_t bytes, size_t looks) noexcept {
  size_t done = 0;
  for (; done < bytes && looks > 0; --looks) {
    const SizeClass c = heap.central().Idlest();
    if (heap.central().FreeBytes(c) < kPayStep) break;
    done += heap.central().ReleasePages(c, 1, Central<Linux>::Patience::kNone);
  }
  return done;
}

// Bytes in use, and bytes free that still hold pages.
size_t Upkeep::Held() noexcept { return heap.pages().used_bytes() + heap.pages().dirty_bytes(); }

// What a limit is held against: the same without the pages of slabs that hold nothing.
size_t Upkeep::Resident() noexcept {
  const size_t held = Held();
  const size_t clean = heap.central().CleanBytes();
  return held > clean ? held - clean : 0;
}

void Upkeep::LookAtLimits() noexcept {
  look_at_.store(Linux::NowMillis() + kLookMillis, std::memory_order_relaxed);
  limits_.Look(Resident());
  const size_t ceiling = limits_.ceiling();
  heap.pages().SetHugeBelow(ceiling == Limits::kNone ? ceiling : ceiling / 4);
  heap.pages().SetMost(options.hard_limit > 0 ? static_cast<size_t>(options.hard_limit)
                                              : ~size_t{0});
}

// The helper looks with each of its windows; where these are long or there is none, the slow paths.
void Upkeep::LookIfDue(uint64_t now) noexcept {
  if (now < look_at_.load(std::memory_order_relaxed) || !running_.TryLock()) return;
  LookAtLimits();
  running_.Unlock();
}

void Upkeep::MakeRoom(size_t bytes) noexcept {
  if (limit_polls_.fetch_add(1, std::memory_order_relaxed) % kPollsPerLook == 0)
    LookIfDue(Linux::NowMillis());
  const size_t ceiling = limits_.ceiling();
  if (Held() + bytes <= ceiling || Resident() + bytes <= ceiling) return;
  // Far above it, waiting for whoever releases now is better than what comes next.
  if (Resident() + bytes > ceiling + kUrgent) {
    running_.Lock();
  } else if (!running_.TryLock()) {
    return;
  }
  ReleaseAbove(bytes);
  running_.Unlock();
}

void Upkeep::ReleaseAbove(size_t bytes) noexcept {
  const size_t ceiling = limits_.ceiling();
  const size_t wanted = Resident() + bytes;
  if (wanted <= ceiling) return;
  const size_t excess = wanted - ceiling;
  size_t given = heap.pages().Release(excess);
  if (given < excess) given += ReleaseFromSlabs(excess - given, ~size_t{0});
  squeezed_.fetch_add(given, std::memory_order_relaxed);
  // What is in use cannot be given back: a heap that needs more than it should have gets it, and
  // the system decides.
  if (given < excess) limits_.Raise(ceiling + excess - given + kConcession);
}

// A heap that rises while free pages lie in slabs of sizes that nobody asks for now, or in spans
// that nobody wanted all through the window, gives as much of these back at once instead of at the
// end of their decay: it grows no further than it must. Called with running_ held.
void Upkeep::PayForGrowth(size_t most) noexcept {
  const size_t unpaid = UnpaidGrowth();
  const size_t due = unpaid < most ? unpaid : most;
  const size_t slabs = ReleaseFromSlabs(due, due / kPayStep * kPaySlabs);
  credit_.fetch_add(slabs, std::memory_order_relaxed);
  size_t done = slabs;
  if (done < due) {
    const size_t idle = heap.pages().IdleBytes();
    done += heap.pages().Release(due - done < idle ? due - done : idle);
  }
  // What is not there cannot be given: the rest is forgiven.
  if (done < due) paid_.store(Level(), std::memory_order_relaxed);
}

void Upkeep::PollWithoutHelper() noexcept {
  PageHeap<Linux>& pages = heap.pages();
  if (options.dirty_decay_ms >= 0 && pages.dirty_bytes() > DirtyBound() && running_.TryLock()) {
    pages.Release(kStepBytes);
    running_.Unlock();
  }
  if (UnpaidGrowth() >= kPayFrom && options.dirty_decay_ms >= 0 && running_.TryLock()) {
    PayForGrowth(kPayStep);
    running_.Unlock();
  }
  const bool busy = step_.load(std::memory_order_relaxed) < kSteps;
  const uint32_t polls = polls_.fetch_add(1, std::memory_order_relaxed);
  if (polls % (busy ? 8 : kPollsPerLook) != 0) return;
  if (HelperPays()) wanted_.store(true, std::memory_order_relaxed);
  if (options.stats_file) publisher_.Poll(Linux::NowMillis());
  const uint64_t now = Linux::NowMillis();
  if (started_ == 0) started_ = now;
  if (Held() >= kLimitedFrom) LookIfDue(now);
  if (options.dirty_decay_ms < 0 || !running_.TryLock()) return;
  if (now >= next_.load(std::memory_order_relaxed)) {
    next_.store(now + WindowMillis(), std::memory_order_relaxed);
    BeginWindow();
    heap.front().ReclaimIdle();
    heap.depot().EndWindow();
    pages.EndWindow();
    if (!options.retain) pages.UnmapFree();
    step_.store(0, std::memory_order_relaxed);
  } else if (busy && !Step()) {
    step_.fetch_add(1, std::memory_order_relaxed);
  }
  running_.Unlock();
}

void Upkeep::BeginWindow() noexcept {
  heap.peaks().EndWindow(heap.pages().used_bytes());
  paid_.store(Level(), std::memory_order_relaxed);
  // The first one begins with the process, and many do not live to see the second.
  if (windows_.fetch_add(1, std::memory_order_relaxed) == 1) RetainDescriptor();
}

Central<Linux>::Patience Upkeep::PatienceNow() const noexcept {
  return limits_.pressed() ? Central<Linux>::Patience::kNone : Central<Linux>::Patience::kTwoLooks;
}

// One bounded piece of the window's work; false when that part is done.
bool Upkeep::Step() noexcept {
  const uint32_t step = step_.load(std::memory_order_relaxed);
  const bool pressed = limits_.pressed();
  if (step == 0) {
    PageHeap<Linux>& pages = heap.pages();
    return (pressed ? pages.Release(kStepBytes) : pages.PayDebt(kStepBytes)) > 0;
  }
  constexpr size_t kSlabs = 16;
  const auto c = static_cast<SizeClass>(step);
  // Only what waits now: slabs inspected once wait again for the next window.
  const size_t waiting = heap.central().SlabsToInspect(c);
  heap.central().ReleasePages(c, waiting < kSlabs ? waiting : kSlabs, PatienceNow());
  return false;
}

void Upkeep::RunWindow() noexcept {
  Locked hold(running_);
  BeginWindow();
  LookAtLimits();
  if (heap.profile().Collects()) unwind::Refresh();
  heap.front().ReclaimIdle();
  heap.depot().EndWindow();
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    heap.central().ReleasePages(c, heap.central().SlabsToInspect(c), PatienceNow());
  }
  heap.pages().EndWindow();
  if (limits_.pressed()) heap.pages().ReleaseAll();
  while (heap.pages().PayDebt(16 * kMiB) > 0) {
  }
  if (!options.retain) heap.pages().UnmapFree();
  ReleaseStructures();
  jemalloc::EndArenaWindows();
}

// What describes free memory: in a heap that has shrunk to half, the map of it; of other structures
// what was freed, where it is much.
void Upkeep::ReleaseStructures() noexcept {
  const size_t used = heap.pages().used_bytes();
  if (used > map_for_) map_for_ = used;
  if (map_for_ >= kLeastMap && used < map_for_ / 2) {
    heap.pages().ReleaseMap();
    map_for_ = used;
  }
  heap.metadata().ReleaseFree();
}

void Upkeep::ReleaseDownTo(size_t bound, size_t most) noexcept {
  if (HelperRuns() || options.dirty_decay_ms < 0) return;
  const size_t dirty = heap.pages().dirty_bytes();
  if (dirty <= bound || !running_.TryLock()) return;
  const size_t excess = dirty - bound;
  heap.pages().Release(excess < most ? excess : most);
  running_.Unlock();
}

void Upkeep::AfterLargeFree(size_t bytes) noexcept {
  Poll();
  ReleaseDownTo(DirtyBound(), 2 * bytes);
}

void Upkeep::AfterFreshLarge(size_t bytes) noexcept { ReleaseDownTo(kLeastDirty / 4, bytes); }

void Upkeep::StartHelper() noexcept {
  wanted_.store(false, std::memory_order_relaxed);
  Helper expected = Helper::kNone;
  if (!helper_.compare_exchange_strong(expected, Helper::kStarting)) return;
  bool started = false;
  if (&pthread_create != nullptr) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 64 * kKiB);
    pthread_t thread;
    started = pthread_create(&thread, &attributes, &Upkeep::HelperMain, this) == 0;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  helper_.store(started ? Helper::kRunning : Helper::kRefused);
}

void* Upkeep::HelperMain(void* self) noexcept {
#if defined(__GLIBC__)
  pthread_setname_np(pthread_self(), "granary");
#endif
  static_cast<Upkeep*>(self)->HelperLoop();
  return nullptr;
}

namespace {

// Where the C library tells of modules under a lock only (unwind.h), this thread asks, which the
// program never makes wait for itself. musl lets go of the lock in the child of a fork; glibc may
// not, so there it is asked once.
void LookAtModules(bool* asked) {
#if defined(__GLIBC__)
  constexpr bool kAgain = false;
#else
  constexpr bool kAgain = true;
#endif
  const bool samples = heap.profile().Collects();
  if (samples && (kAgain || !*asked)) unwind::Refresh();
  *asked = samples;
}

}  // namespace

void Upkeep::HelperLoop() noexcept {
  ApplyLimits();
  bool modules_asked = false;
  uint32_t quiet = 0;
  uint64_t end = Linux::NowMillis() + WindowMillis();
  uint64_t tick = TickBefore(end);
  for (;;) {
    if (control_.Pending()) control_.Serve();
    LookAtModules(&modules_asked);
    const uint64_t now = Linux::NowMillis();
    publisher_.Poll(now);
    LookIfDue(now);
    CheckThresholds();
    if (now >= tick) {
      const size_t before = heap.pages().Stats().released + heap.pages().used_bytes();
      const bool window = options.dirty_decay_ms >= 0 && (now >= end || limits_.pressed());
      if (window) RunWindow();
      const size_t after = heap.pages().Stats().released + heap.pages().used_bytes();
      quiet = after == before ? quiet + 1 : 0;
      if (window) end = Linux::NowMillis() + (WindowMillis() > 10 ? WindowMillis() : 10);
      tick = TickBefore(end);
      continue;
    }
    if (UnpaidGrowth() >= kPayHelpedFrom && options.dirty_decay_ms >= 0) {
      Locked hold(running_);
      PayForGrowth(~size_t{0});
    }
    if (heap.pages().fresh_trackers() != fresh_seen_.load(std::memory_order_relaxed)) {
      WatchGrowth(now + WindowMillis());
      continue;
    }
    const bool dormant = options.dirty_decay_ms < 0 || quiet > kQuietWindows;
    dormant_.store(dormant, std::memory_order_relaxed);
    asleep_.store(1);
    const bool rung =
        Linux::WaitForOrBell(asleep_, 1, {&granary_bell, kBellValue}, control_.asked(),
                             dormant ? DormantMillis() : tick - now);
    asleep_.store(0);
    if (dormant && !rung) {  // the decay time may be another by now
      quiet = 0;
      end = Linux::NowMillis() + WindowMillis();
      tick = TickBefore(end);
    }
  }
}

void Upkeep::ServeControl() noexcept {
  if (!HelperRuns()) return control_.Serve();
  if (asleep_.exchange(0) != 0) Linux::Wake(asleep_);
}

// Keeps a tracker or two ahead of a growing heap, until it has stopped growing for a while.
void Upkeep::WatchGrowth(uint64_t until) noexcept {
  PageHeap<Linux>& pages = heap.pages();
  uint64_t last = Linux::NowMillis();
  for (uint64_t now = last; now < last + kGrowthMillis && now < until; now = Linux::NowMillis()) {
    const uint32_t fresh = pages.fresh_trackers();
    if (fresh != fresh_seen_.load(std::memory_order_relaxed)) {
      fresh_seen_.store(fresh, std::memory_order_relaxed);
      last = now;
    }
    if (UnpaidGrowth() >= kPayHelpedFrom && options.dirty_decay_ms >= 0) {
      Locked hold(running_);
      PayForGrowth(kMiB);
    }
    if (!pages.PrepareAhead()) Linux::SleepMicros(20);
  }
}

void Upkeep::PollAsleep() noexcept {
  if (options.dirty_decay_ms < 0) return;
  if (!dormant_.load(std::memory_order_relaxed) && UnpaidGrowth() < kPayHelpedFrom &&
      heap.pages().fresh_trackers() == fresh_seen_.load(std::memory_order_relaxed)) {
    return;
  }
  if (asleep_.exchange(0) != 0) Linux::Wake(asleep_);
}

void Upkeep::AfterFork(bool child) noexcept {
  if (!child) return running_.Unlock();
  running_.Reset();
  helper_.store(Helper::kNone);
  wanted_.store(false);
  not_before_ = Linux::NowMillis() + kChildMillis;
  asleep_.store(0);
  control_.Forget();
  thresholds_.ResetLock();
  publisher_.Forget();
}

}  // namespace granary
