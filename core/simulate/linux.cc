// The library's system, made of the simulated machine instead of the kernel's calls.
#include "os/linux.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstring>

#include "base/units.h"
#include "simulate/machine.h"

namespace granary {

using simulate::machine;

constinit SystemCalls system_calls;

// ---- memory: the heap's is counted, metadata is real ----

void* Linux::Map(size_t bytes, size_t alignment, void*) noexcept {
  ++machine.calls.mmap;
  return machine.Map(bytes, alignment);
}

void* Linux::Reserve(size_t bytes, size_t alignment, void* hint) noexcept {
  ++machine.calls.mmap;
  return machine.pages.Reserve(bytes, alignment, hint);
}

bool Linux::ReservesWithoutAccess() noexcept { return true; }

bool Linux::Commit(void*, size_t) noexcept {
  ++machine.calls.mprotect;
  return true;
}

void Linux::Decommit(void*, size_t) noexcept { ++machine.calls.mprotect; }

void Linux::Unmap(void* p, size_t bytes) noexcept {
  ++machine.calls.munmap;
  if (machine.pages.Holds(p)) return machine.pages.Unmap(p, bytes);
  machine.Unmap(p, bytes);
}

bool Linux::Discard(void* p, size_t bytes) noexcept {
  ++machine.calls.madvise;
  return madvise(p, bytes, MADV_DONTNEED) == 0;
}

bool Linux::Purge(void* p, size_t bytes) noexcept {
  system_calls.release_calls.fetch_add(1, std::memory_order_relaxed);
  if (!machine.pages.Holds(p)) return Discard(p, bytes);
  ++machine.calls.madvise;
  machine.pages.Purge(p, bytes);
  return true;
}

void Linux::Clear(void*, size_t) noexcept {}

bool Linux::Guard(void*, size_t) noexcept { return false; }

void Linux::Unguard(void*, size_t) noexcept {}

bool Linux::Populate(void* p, size_t bytes) noexcept {
  ++machine.calls.madvise;
  machine.pages.Touch(p, bytes, machine.node);
  return true;
}

void Linux::AllowHuge(void* p, size_t bytes, bool allow) noexcept {
  ++machine.calls.madvise;
  if (machine.pages.Holds(p)) machine.pages.AllowHuge(p, bytes, allow);
}

void Linux::SplitHuge(void* p) noexcept {
  ++machine.calls.madvise;
  machine.pages.SplitHuge(p);
}

MoveResult Linux::MovePages(void* from, size_t bytes, void* to) noexcept {
  machine.calls.mremap += (bytes + kTrackerBytes - 1) / kTrackerBytes;
  machine.pages.Move(from, bytes, to);
  return {bytes, false};
}

size_t Linux::PageSize() noexcept { return simulate::Pages::kPage; }

// ---- time and CPUs ----

uint64_t Linux::NowNanos() noexcept { return machine.nanos(); }
uint64_t Linux::NowUnixNanos() noexcept { return machine.nanos(); }
uint64_t Linux::NowMillis() noexcept { return machine.ReadClock() / 1000000; }
// Huge pages take no time here, so the library never finds that they are slow.
uint64_t Linux::ThreadNanos() noexcept { return 0; }
unsigned Linux::CpuCount() noexcept { return machine.hardware.cpus; }
size_t Linux::CpuLimit() noexcept { return machine.hardware.cpus; }
CpuMask Linux::Cpus() noexcept { return {}; }
void Linux::RunOn(const CpuMask&) noexcept {}
void Linux::PrepareToAbort() noexcept {}

// One thread at a time runs, so none is in a sequence.
bool Linux::AbortRestartables() noexcept {
  ++machine.calls.membarrier;
  return true;
}

// ---- waiting ----

void Linux::Wait(std::atomic<uint32_t>&, uint32_t) noexcept {
  simulate::Fail("a thread waits for a lock that no other thread can release; this is a bug");
}
void Linux::WaitFor(std::atomic<uint32_t>& word, uint32_t value, uint64_t millis) noexcept {
  machine.background.Sleep(machine.nanos() + millis * 1000000, &word, value);
}
void Linux::Wake(std::atomic<uint32_t>&) noexcept {}
void Linux::RunAsMainThread() noexcept { machine.background.Begin(); }
void Linux::SleepMicros(uint64_t micros) noexcept {
  machine.background.Sleep(machine.nanos() + micros * 1000, nullptr, 0);
}
bool Linux::WaitForOrRequest(std::atomic<uint32_t>& word, uint32_t value, Awaited, Awaited,
                             uint64_t millis) noexcept {
  WaitFor(word, value, millis);
  return false;
}

// ---- the files of the system that the library reads ----

namespace {

// A number that no other file has.
constexpr int kFirstFile = 1 << 20;
constexpr const char* kFiles[] = {"/proc/self/statm", "/proc/self/cgroup",
                                  "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"};

int Contents(int index, char* to, size_t size) {
  switch (index) {
    case 0:
      return std::snprintf(to, size, "0 %llu 0 0 0 0 0\n",
                           static_cast<unsigned long long>(machine.pages.counts().resident));
    case 1:
      return std::snprintf(to, size, "0::/\n");
    case 2:
      return std::snprintf(to, size, "%llu\n",
                           static_cast<unsigned long long>(machine.hardware.memory));
    default:
      return std::snprintf(to, size, "%llu\n",
                           static_cast<unsigned long long>(machine.pages.resident_bytes()));
  }
}

}  // namespace

int Linux::OpenFile(const char* path) noexcept {
  constexpr int kNoSuchFile = -2;
  if (machine.hardware.memory == 0) return kNoSuchFile;
  for (int i = 0; i < 4; ++i) {
    if (std::strcmp(path, kFiles[i]) == 0) return kFirstFile + i;
  }
  return kNoSuchFile;
}

long Linux::ReadAndClose(int file, char* to, size_t size) noexcept {
  return Contents(file - kFirstFile, to, size);
}

long Linux::ReadFile(int, char*, size_t) noexcept { return 0; }
long Linux::ReadFileAt(int, void*, size_t, uint64_t) noexcept { return 0; }
void Linux::CloseFile(int) noexcept {}

}  // namespace granary
