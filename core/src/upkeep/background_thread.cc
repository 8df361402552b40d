// The background thread: when it is started, what it does when it wakes, and what wakes it.
#include <link.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "layers/layers.h"
#include "unwind/unwind.h"
#include "upkeep/upkeep.h"

// Absent from a program that is not linked to libpthread (glibc before 2.34).
#pragma weak pthread_create
// A variable of glibc: false once the program has made a thread. Absent before glibc 2.32, and from
// musl.
extern "C" char __libc_single_threaded __attribute__((weak));

// Part of the note (inspection/note.h): the same word of the same file in every process.
extern "C" const uint32_t granary_request_word __attribute__((visibility("hidden")));

namespace granary {
namespace {

// smaller heaps need no background thread,
constexpr size_t kBackgroundFrom = 8 * kMiB;
// nor do smaller heaps of programs with only one thread
constexpr size_t kBackgroundAloneFrom = 64 * kMiB;
constexpr uint32_t kQuietIntervals = 20;  // ticks without work before the background thread sleeps
constexpr uint64_t kDormantMillis = 60000;  // longest sleep of the background thread
constexpr uint64_t kRetryMillis = 1000;     // after the system refused a thread
constexpr uint64_t kGrowthMillis =
    12;  // a heap that allocated no region for this time has stopped growing
constexpr uint64_t kLeastPauseMicros = 20, kMostPauseMicros = 1000;
constexpr size_t kBackgroundOffsetFrom = kMiB;  // growth that the background thread offsets
constexpr uint64_t kLeastIntervalMillis = 10;   // between two rounds of its work
constexpr uint32_t kRequestWordValue = 1;       // the constant value of granary_request_word
constexpr size_t kStack = 64 * kKiB;            // that the background thread may use

// What glibc takes from the stack of each thread: the thread-local storage of all modules.
size_t thread_storage = 0;

int AddStorage(dl_phdr_info* module, size_t, void*) {
  for (size_t i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = module->dlpi_phdr[i];
    if (header.p_type == PT_TLS) thread_storage += header.p_memsz + header.p_align;
  }
  return 0;
}

// How long the background thread may sleep while the heap allocates a region every `nanos`
// nanoseconds, or has only begun to grow.
uint64_t PauseOf(uint64_t nanos) {
  const uint64_t micros = nanos / 1000;
  if (micros > kGrowthMillis * 1000) return kLeastPauseMicros;
  return std::clamp(micros / 8, kLeastPauseMicros, kMostPauseMicros);
}

bool ProgramHasThreads() {
  return &__libc_single_threaded != nullptr && __libc_single_threaded == 0;
}

uint64_t DormantMillis() { return options.stats_file ? Upkeep::kTickMillis : kDormantMillis; }

// The C library lists its modules under a lock (unwind.h). The background thread takes this lock,
// because no code of the program ever waits for the background thread. In the child of a fork musl
// frees the lock; glibc may not, so with glibc the modules are read once.
void RefreshModules(bool* asked) {
#if defined(__GLIBC__)
  constexpr bool kAgain = false;
#else
  constexpr bool kAgain = true;
#endif
  const bool samples = layers.profile().Collects();
  if (samples && (kAgain || !*asked)) unwind::Refresh();
  *asked = samples;
}

}  // namespace

// A decay time of zero must not keep the background thread busy all the time.
uint64_t Upkeep::BackgroundMillis() noexcept {
  return std::max(IntervalMillis(), kLeastIntervalMillis);
}

// When the background thread wakes next: at the end of the interval, or sooner if that is far away.
uint64_t Upkeep::TickBefore(uint64_t end) noexcept {
  const uint64_t soon = Linux::NowMillis() + kRefreshMillis;
  return soon < end ? soon : end;
}

bool Upkeep::BackgroundIsWorthIt() noexcept {
  if (!options.background_thread ||
      background_.load(std::memory_order_relaxed) != Background::kNone)
    return false;
  const size_t size = layers.pages().used_bytes() + layers.pages().dirty_bytes();
  // Includes threads that never allocate, but not threads that do not exist in a forked child.
  const bool several = threads.registered() >= 2 || (not_before_ == 0 && ProgramHasThreads());
  const size_t from = options.stats_file ? 0 : several ? kBackgroundFrom : kBackgroundAloneFrom;
  if (size < from) return false;
  const uint64_t earliest = not_before_ > retry_at_ ? not_before_ : retry_at_;
  return earliest == 0 || Linux::NowMillis() >= earliest;
}

void Upkeep::MeasureThreadStorage() noexcept { dl_iterate_phdr(&AddStorage, nullptr); }

void Upkeep::StartBackground() noexcept {
  wanted_.store(false, std::memory_order_relaxed);
  Background expected = Background::kNone;
  if (!background_.compare_exchange_strong(expected, Background::kStarting)) return;
  bool started = false;
  if (&pthread_create != nullptr) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, kStack + RoundUp(thread_storage, 4 * kKiB));
    pthread_t thread;
    started = pthread_create(&thread, &attributes, &Upkeep::BackgroundMain, this) == 0;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  if (!started) retry_at_ = Linux::NowMillis() + kRetryMillis;
  background_.store(started                      ? Background::kRunning
                    : &pthread_create != nullptr ? Background::kNone
                                                 : Background::kImpossible);
}

void* Upkeep::BackgroundMain(void* self) noexcept {
#if defined(__GLIBC__)
  pthread_setname_np(pthread_self(), "granary");
#endif
  // Whichever thread made this one passed on how and where it runs itself.
  Linux::RunAsMainThread();
  Linux::RunOn(upkeep.cpus_);
  static_cast<Upkeep*>(self)->BackgroundLoop();
  return nullptr;
}

void Upkeep::BackgroundLoop() noexcept {
  ApplyLimits();
  bool modules_asked = false;
  uint32_t quiet = 0;
  uint64_t end = Linux::NowMillis() + BackgroundMillis();
  uint64_t tick = TickBefore(end);
  for (;;) {
    if (requests_.Pending()) clients_.serve(requests_);
    RefreshModules(&modules_asked);
    const uint64_t now = Linux::NowMillis();
    clients_.tick(now);
    RefreshLimitsIfDue(now);
    CheckThresholds();
    if (now >= tick) {
      const size_t before = layers.pages().Stats().released + layers.pages().used_bytes();
      const bool over = options.dirty_decay_ms >= 0 && (now >= end || limits_.under_pressure());
      if (over) RunInterval();
      const size_t after = layers.pages().Stats().released + layers.pages().used_bytes();
      quiet = after == before ? quiet + 1 : 0;
      if (over) end = Linux::NowMillis() + BackgroundMillis();
      tick = TickBefore(end);
      continue;
    }
    if (GrowthToOffset() >= kBackgroundOffsetFrom && options.dirty_decay_ms >= 0) {
      Locked hold(running_);
      OffsetGrowth(~size_t{0});
    }
    if (layers.pages().fresh_trackers() != fresh_seen_.load(std::memory_order_relaxed)) {
      WatchGrowth(now + BackgroundMillis());
      continue;
    }
    const bool dormant = options.dirty_decay_ms < 0 || quiet > kQuietIntervals;
    dormant_.store(dormant, std::memory_order_relaxed);
    asleep_.store(1);
    const bool woken =
        Linux::WaitForOrRequest(asleep_, 1, {&granary_request_word, kRequestWordValue},
                                requests_.asked(), dormant ? DormantMillis() : tick - now);
    asleep_.store(0);
    if (dormant && !woken) {  // the decay time may have changed meanwhile
      quiet = 0;
      end = Linux::NowMillis() + BackgroundMillis();
      tick = TickBefore(end);
    }
  }
}

void Upkeep::ServeRequests() noexcept {
  if (!BackgroundRuns()) return clients_.serve(requests_);
  if (asleep_.exchange(0) != 0) Linux::Wake(asleep_);
}

// Keeps one or two regions ahead of a growing heap, until it has stopped growing for a while.
void Upkeep::WatchGrowth(uint64_t until) noexcept {
  PageHeap<Linux>& pages = layers.pages();
  uint64_t pause = kLeastPauseMicros;
  uint64_t last = Linux::NowMillis();
  for (uint64_t now = last; now < last + kGrowthMillis && now < until; now = Linux::NowMillis()) {
    const uint32_t fresh = pages.fresh_trackers();
    const uint32_t count = fresh - fresh_seen_.exchange(fresh, std::memory_order_relaxed);
    if (count > 0) {
      const uint64_t before = std::exchange(fresh_at_, Linux::NowNanos());
      pause = pages.HugeIsSlow() ? kMostPauseMicros : PauseOf((fresh_at_ - before) / count);
      last = now;
    }
    const bool offsets = GrowthToOffset() >= kBackgroundOffsetFrom && options.dirty_decay_ms >= 0;
    if (offsets) {
      Locked hold(running_);
      OffsetGrowth(kMiB);
    }
    // What is prepared is growth too, and the purge that offsets it may take it. Without a decay
    // time it would be purged in any case.
    if (offsets || IntervalMillis() == 0 || !pages.PrepareAhead()) Linux::SleepMicros(pause);
  }
}

void Upkeep::PollAsleep() noexcept {
  if (options.dirty_decay_ms < 0) return;
  if (!dormant_.load(std::memory_order_relaxed) && GrowthToOffset() < kBackgroundOffsetFrom &&
      layers.pages().fresh_trackers() == fresh_seen_.load(std::memory_order_relaxed)) {
    return;
  }
  if (asleep_.exchange(0) != 0) Linux::Wake(asleep_);
}

}  // namespace granary
