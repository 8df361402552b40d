// Time, CPUs and waiting: what core/simulate replaces.
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "base/bits.h"
#include "os/linux.h"
#include "os/system_call.h"

// glibc's: false once the program has made a thread. Absent before 2.32, and from musl.
extern "C" char __libc_single_threaded __attribute__((weak));

namespace granary {

namespace {

uint64_t NanosOf(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

uint64_t Linux::NowNanos() noexcept { return NanosOf(CLOCK_MONOTONIC); }
uint64_t Linux::NowUnixNanos() noexcept { return NanosOf(CLOCK_REALTIME); }
uint64_t Linux::ThreadNanos() noexcept { return NanosOf(CLOCK_THREAD_CPUTIME_ID); }

uint64_t Linux::NowMillis() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1000000;
}

namespace {

CpuMask CpusOf(long thread) {
  CpuMask mask{};
  mask.bytes = Call(call::sched_getaffinity, thread, sizeof mask.words, Bits(mask.words));
  return mask;
}

}  // namespace

unsigned Linux::CpuCount() noexcept {
  const CpuMask mask = CpusOf(0);
  unsigned count = 0;
  for (long i = 0; i < mask.bytes / static_cast<long>(sizeof(long)); ++i) {
    count += static_cast<unsigned>(std::popcount(mask.words[i]));
  }
  return count;
}

CpuMask Linux::Cpus() noexcept { return CpusOf(0); }

size_t Linux::CpuLimit() noexcept {
  const CpuMask mask = CpusOf(0);
  return mask.bytes > 0 ? static_cast<size_t>(mask.bytes) * 8 : 0;
}

namespace {

bool HasOneThread() { return &__libc_single_threaded != nullptr && __libc_single_threaded != 0; }

}  // namespace

void Linux::PrepareToAbort() noexcept {
  static std::atomic<bool> done{false};
  if (HasOneThread() || done.exchange(true, std::memory_order_relaxed)) return;
  Call(call::membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ);
}

// The only thread of a process is in no sequence while it runs this. So a program of one thread
// calls nothing here, not even at its exit, where a filter of system calls may be in force.
bool Linux::AbortRestartables() noexcept {
  if (HasOneThread()) return true;
  if (!Failed(Call(call::membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ))) return true;
  Call(call::membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ);
  return !Failed(Call(call::membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ));
}

void Linux::Wait(std::atomic<uint32_t>& word, uint32_t value) noexcept {
  Call(call::futex, Bits(&word), FUTEX_WAIT_PRIVATE, value);
}

void Linux::Wake(std::atomic<uint32_t>& word) noexcept {
  Call(call::futex, Bits(&word), FUTEX_WAKE_PRIVATE, 1);
}

namespace {

struct Span {
  timespec t;
  explicit Span(uint64_t micros)
      : t{static_cast<time_t>(micros / 1000000), static_cast<long>(micros % 1000000) * 1000} {}
};

}  // namespace

void Linux::SleepMicros(uint64_t micros) noexcept {
  Span span(micros);
  Call(call::nanosleep, Bits(&span.t));
}

void Linux::WaitFor(std::atomic<uint32_t>& word, uint32_t value, uint64_t millis) noexcept {
  Span span(millis * 1000);
  Call(call::futex, Bits(&word), FUTEX_WAIT_PRIVATE, value, Bits(&span.t));
}

// Milliseconds between two checks, where the kernel cannot wait for all words.
constexpr uint64_t kPollMillis = 100;

// struct futex_waitv of linux/futex.h, which older headers lack.
struct Waiter {
  uint64_t value;
  uint64_t address;
  uint32_t flags;
  uint32_t reserved = 0;
};

bool Linux::WaitForOrRequest(std::atomic<uint32_t>& word, uint32_t value, Awaited request_word,
                             Awaited requested, uint64_t millis) noexcept {
  constexpr uint32_t kSize32 = 2, kPrivate = kSize32 | FUTEX_PRIVATE_FLAG;
  const Waiter waiters[3] = {{value, AddressOf(&word), kPrivate},
                             {request_word.value, AddressOf(request_word.word), kSize32},
                             {requested.value, AddressOf(requested.word), kPrivate}};
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  const uint64_t nanos = static_cast<uint64_t>(until.tv_nsec) + millis % 1000 * 1000000;
  until.tv_sec += static_cast<time_t>(millis / 1000 + nanos / 1000000000);
  until.tv_nsec = static_cast<long>(nanos % 1000000000);
  const long result = Call(call::futex_waitv, Bits(waiters), 3, 0, Bits(&until), CLOCK_MONOTONIC);
  constexpr long kInterrupted = -4, kChanged = -11, kTimedOut = -110;
  // With any other result (no such call, forbidden by a filter), the call did not wait.
  if (Failed(result) && result != kInterrupted && result != kChanged && result != kTimedOut) {
    WaitFor(word, value, millis < kPollMillis ? millis : kPollMillis);
  }
  return result == 1;
}

void Linux::RunAsMainThread() noexcept {
  const long process = Call(call::getpid);
  constexpr long kRaised = 20;  // what the system call adds to priorities
  const long nice = kRaised - Call(call::getpriority, PRIO_PROCESS, process);
  const sched_param none{};
  Call(call::sched_setscheduler, 0, SCHED_OTHER, Bits(&none));
  if (nice >= -kRaised && nice < kRaised) Call(call::setpriority, PRIO_PROCESS, 0, nice);
}

void Linux::RunOn(const CpuMask& cpus) noexcept {
  if (cpus.bytes > 0) Call(call::sched_setaffinity, 0, cpus.bytes, Bits(cpus.words));
}

}  // namespace granary
