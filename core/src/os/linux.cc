// Memory, time, CPUs, waiting, and reading files: what core/simulate replaces.
#include "os/linux.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/units.h"
#include "os/backing_file.h"
#include "os/region_hooks.h"
#include "os/system_call.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

// glibc's: false once the program has made a thread. Absent before 2.32, and from musl.
extern "C" char __libc_single_threaded __attribute__((weak));

namespace granary {

namespace {

long Advise(void* p, size_t bytes, int advice) {
  return Call(call::madvise, Bits(p), static_cast<long>(bytes), advice);
}

constexpr int kMapFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

void* MapAt(size_t bytes, void* hint, int access) {
  const long p = Call(call::mmap, Bits(hint), static_cast<long>(bytes), access, kMapFlags, -1, 0);
  return Failed(p) ? nullptr : reinterpret_cast<void*>(p);
}

void* MapAligned(size_t bytes, size_t alignment, void* hint, int access) {
  void* p = MapAt(bytes, hint, access);
  if (p == nullptr || IsAligned(AddressOf(p), alignment)) return p;
  Linux::Unmap(p, bytes);
  p = MapAt(bytes + alignment, nullptr, access);
  if (p == nullptr) return nullptr;
  char* const whole = static_cast<char*>(p);
  char* const first = reinterpret_cast<char*>(RoundUp(AddressOf(p), alignment));
  if (first != whole) Linux::Unmap(whole, static_cast<size_t>(first - whole));
  Linux::Unmap(first + bytes, static_cast<size_t>(whole + alignment - first));
  return first;
}

// Milliseconds between two checks, where the kernel cannot wait for all words.
constexpr uint64_t kPollMillis = 100;

}  // namespace

void* Linux::Map(size_t bytes, size_t alignment, void* hint) noexcept {
  return MapAligned(bytes, alignment, hint, PROT_READ | PROT_WRITE);
}

void* Linux::Reserve(size_t bytes, size_t alignment, void* hint) noexcept {
  // The heap takes whole regions; what else reserves address space protects single pages of it.
  const bool heap = alignment == kTrackerBytes && bytes % kTrackerBytes == 0;
  if (heap && region_hooks != nullptr && region_hooks->asked()) {
    return region_hooks->reserve(bytes, alignment);
  }
  if (heap && backing_file != nullptr) return backing_file->Reserve(bytes);
  return MapAligned(bytes, alignment, hint, PROT_NONE);
}

bool Linux::Commit(void* p, size_t bytes) noexcept {
  if (IsBacked(p)) return backing_file->Commit(p, bytes);
  if (IsHooked(p)) return region_hooks->commit(p, bytes);
  return !Failed(Call(call::mprotect, Bits(p), static_cast<long>(bytes), PROT_READ | PROT_WRITE));
}

void Linux::Decommit(void* p, size_t bytes) noexcept {
  if (IsBacked(p)) return backing_file->Decommit(p, bytes);
  if (IsHooked(p)) return;
  Call(call::mprotect, Bits(p), static_cast<long>(bytes), PROT_NONE);
}

void Linux::Unmap(void* p, size_t bytes) noexcept {
  if (IsBacked(p)) return backing_file->Unmap(p, bytes);
  if (IsHooked(p)) return region_hooks->unmap(p, bytes);
  if (bytes > 0) Call(call::munmap, Bits(p), static_cast<long>(bytes));
}

constinit SystemCalls system_calls;

bool Linux::Discard(void* p, size_t bytes) noexcept {
  return !Failed(Advise(p, bytes, MADV_DONTNEED));
}

bool Linux::Purge(void* p, size_t bytes) noexcept {
  const uint64_t before = NowNanos();
  const bool done = IsBacked(p)   ? backing_file->Purge(p, bytes)
                    : IsHooked(p) ? region_hooks->purge(p, bytes)
                                  : Discard(p, bytes);
  system_calls.release_nanos.fetch_add(NowNanos() - before, std::memory_order_relaxed);
  system_calls.release_calls.fetch_add(1, std::memory_order_relaxed);
  return done;
}

// Pages of a locked mapping are never swapped out, so that those that are not in memory were never
// touched. Whatever else the refusal came from, each page may have bytes.
void Linux::Clear(void* p, size_t bytes) noexcept {
  if (IsBacked(p) || IsHooked(p)) {
    __builtin_memset(p, 0, bytes);
    return;
  }
  constexpr long kInvalid = -22;
  const bool locked = Advise(p, bytes, MADV_DONTNEED) == kInvalid;
  const size_t page = PageSize();
  unsigned char resident[kTrackerBytes / kMinOsPage];
  for (size_t at = 0; at < bytes;) {
    char* const piece = static_cast<char*>(p) + at;
    const size_t count =
        bytes - at < sizeof resident * page ? (bytes - at) / page : sizeof resident;
    const bool known = locked && !Failed(Call(call::mincore, Bits(piece),
                                              static_cast<long>(count * page), Bits(resident)));
    for (size_t i = 0; i < count; ++i) {
      if (!known || (resident[i] & 1) != 0) __builtin_memset(piece + i * page, 0, page);
    }
    at += count * page;
  }
}

bool Linux::Populate(void* p, size_t bytes) noexcept {
  return !Failed(Advise(p, bytes, MADV_POPULATE_WRITE));
}

void Linux::AllowHuge(void* p, size_t bytes, bool allow) noexcept {
  Advise(p, bytes, allow ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

// Advice about a part of a huge page that no other process maps makes the kernel split the huge
// page. MADV_COLD has no further effect here, because the page is purged anyway. Kernels before 5.4
// do not know this advice, and split later.
void Linux::SplitHuge(void* p) noexcept { Advise(p, PageSize(), MADV_COLD); }

namespace {

bool Limited(int resource) {
  rlimit64 limit{};
  return Failed(Call(call::prlimit64, 0, resource, 0, Bits(&limit))) ||
         limit.rlim_cur != RLIM64_INFINITY;
}

// Overcommit mode 2 of the kernel charges address space as if it were memory.
bool CommitIsStrict() {
  static std::atomic<char> mode{0};
  char known = mode.load(std::memory_order_relaxed);
  if (known != 0) return known == '2';
  const long file =
      Call(call::openat, AT_FDCWD, Bits("/proc/sys/vm/overcommit_memory"), O_RDONLY | O_CLOEXEC);
  if (Failed(file) || Failed(Call(call::read, file, Bits(&known), 1))) known = '2';
  if (!Failed(file)) Call(call::close, file);
  mode.store(known, std::memory_order_relaxed);
  return known == '2';
}

// Not on arm64: qemu's emulation unmaps the source in spite of the flag, and this was not tested on
// an arm64 kernel.
#if defined(__aarch64__)
constexpr bool kMovesPages = false;
#else
constexpr bool kMovesPages = true;
#endif

bool Remap(void* from, size_t bytes, void* to, int flags) {
  return !Failed(Call(call::mremap, Bits(from), static_cast<long>(bytes), static_cast<long>(bytes),
                      MREMAP_MAYMOVE | MREMAP_FIXED | flags, Bits(to)));
}

// Whether the kernel moves pages in this way at all, tried where nothing can be lost.
bool MovesPages() {
  enum : uint8_t { kUnknown, kYes, kNo };
  static std::atomic<uint8_t> known{kUnknown};
  uint8_t moves = known.load(std::memory_order_relaxed);
  if (moves == kUnknown) {
    const size_t page = Linux::PageSize();
    char* const p = static_cast<char*>(MapAt(2 * page, nullptr, PROT_READ | PROT_WRITE));
    if (p == nullptr) return false;
    moves = Remap(p, page, p + page, MREMAP_DONTUNMAP) ? kYes : kNo;
    known.store(moves, std::memory_order_relaxed);
    Linux::Unmap(p, 2 * page);
  }
  return moves == kYes;
}

// After a refused move: maps the hole at p, if the move left one. False if p is mapped: the kernel
// refused before it unmapped p, or another thread's mmap received the hole. These two cases cannot
// be distinguished.
bool CloseHole(void* p, size_t bytes) {
  const long at = Call(call::mmap, Bits(p), static_cast<long>(bytes), PROT_READ | PROT_WRITE,
                       kMapFlags | MAP_FIXED_NOREPLACE, -1, 0);
  if (Failed(at)) return false;
  if (at == Bits(p)) return true;
  // Kernels before 4.17 take the address for a wish.
  Call(call::munmap, at, static_cast<long>(bytes));
  return false;
}

}  // namespace

// The kernel unmaps the target before it checks limits on address space, so that a refusal leaves a
// hole in the heap: where there are such limits, it is not asked. Before 6.17 it does so as well
// when the source is more than one mapping. A region is one, unless the program gave advice about a
// part of it.
MoveResult Linux::MovePages(void* from, size_t bytes, void* to) noexcept {
  MoveResult result;
  if (backing_file != nullptr || region_hooks != nullptr) return result;
  if (!kMovesPages || Limited(RLIMIT_AS) || Limited(RLIMIT_DATA) || CommitIsStrict()) return result;
  if (!MovesPages()) return result;
  while (result.bytes < bytes) {
    const size_t left = bytes - result.bytes;
    const size_t step = left < kTrackerBytes ? left : kTrackerBytes;
    char* const target = static_cast<char*>(to) + result.bytes;
    if (!Remap(static_cast<char*>(from) + result.bytes, step, target, MREMAP_DONTUNMAP)) {
      result.lost = !CloseHole(target, step);
      break;
    }
    result.bytes += step;
  }
  return result;
}

// An emulator may accept the advice and ignore it, so the first guard is tried.
bool Linux::Guard(void* p, size_t bytes) noexcept {
  enum : char { kUntried, kWorks, kIgnored };
  static std::atomic<char> known{kUntried};
  if (known.load(std::memory_order_relaxed) == kIgnored || IsBacked(p) || IsHooked(p)) {
    return false;
  }
  if (Failed(Advise(p, bytes, MADV_GUARD_INSTALL))) return false;
  if (known.load(std::memory_order_relaxed) == kUntried) {
    known.store(IsReadable(p) ? kIgnored : kWorks, std::memory_order_relaxed);
  }
  return known.load(std::memory_order_relaxed) == kWorks;
}

void Linux::Unguard(void* p, size_t bytes) noexcept { Advise(p, bytes, MADV_GUARD_REMOVE); }

size_t Linux::PageSize() noexcept { return getauxval(AT_PAGESZ); }

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

int Linux::OpenFile(const char* path) noexcept {
  return static_cast<int>(Call(call::openat, AT_FDCWD, Bits(path), O_RDONLY | O_CLOEXEC));
}

long Linux::ReadAndClose(int file, char* to, size_t size) noexcept {
  const long bytes = Call(call::read, file, Bits(to), static_cast<long>(size));
  Call(call::close, file);
  return bytes;
}

long Linux::ReadFile(int file, char* to, size_t size) noexcept {
  return Call(call::read, file, Bits(to), static_cast<long>(size));
}

long Linux::ReadFileAt(int file, void* to, size_t size, uint64_t at) noexcept {
  return Call(call::pread64, file, Bits(to), static_cast<long>(size), static_cast<long>(at));
}

void Linux::CloseFile(int file) noexcept {
  if (file >= 0) Call(call::close, file);
}

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
