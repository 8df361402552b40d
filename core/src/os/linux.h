// Linux through bare system calls. They leave errno unchanged and allocate nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "os/os.h"

namespace granary {

// Same layout as the kernel's struct iovec.
struct FilePiece {
  const void* p;
  size_t bytes;
};

// A set of CPUs. `bytes` is the length of the kernel's own sets, negative when they do not fit.
struct CpuMask {
  unsigned long words[kMaxCpus / 8 / sizeof(long)];
  long bytes;
};

struct Linux {
  static void* Map(size_t bytes, size_t alignment, void* hint) noexcept;
  static void* Reserve(size_t bytes, size_t alignment, void* hint) noexcept;
  // Whether memory of the heap has no access until it is committed.
  static bool ReservesWithoutAccess() noexcept;
  static bool Commit(void* p, size_t bytes) noexcept;
  static void Decommit(void* p, size_t bytes) noexcept;
  static void Unmap(void* p, size_t bytes) noexcept;
  static bool Purge(void* p, size_t bytes) noexcept;
  // Purge for memory of Map only.
  static bool Discard(void* p, size_t bytes) noexcept;
  static bool Guard(void* p, size_t bytes) noexcept;
  static void Unguard(void* p, size_t bytes) noexcept;
  static void Clear(void* p, size_t bytes) noexcept;
  static bool Populate(void* p, size_t bytes) noexcept;
  static void AllowHuge(void* p, size_t bytes, bool allow) noexcept;
  static void SplitHuge(void* p) noexcept;
  static MoveResult MovePages(void* from, size_t bytes, void* to) noexcept;
  static size_t PageSize() noexcept;
  // A number that differs between processes and that the program does not know.
  static uint64_t Secret() noexcept;
  static uint64_t NowMillis() noexcept;
  static uint64_t ThreadNanos() noexcept;
  static unsigned CpuCount() noexcept;
  static size_t CpuLimit() noexcept;
  static bool AbortRestartables() noexcept;
  // Does what the first call of AbortRestartables would wait for: several milliseconds in a process
  // of several threads, so not while caches are stopped.
  static void PrepareToAbort() noexcept;
  static void Wait(std::atomic<uint32_t>& word, uint32_t value) noexcept;
  static void Wake(std::atomic<uint32_t>& word) noexcept;

  // Not part of the concept: used only by the entry layer and the messages.
  static void SleepMicros(uint64_t micros) noexcept;
  // Waits for at most `millis`.
  static void WaitFor(std::atomic<uint32_t>& word, uint32_t value, uint64_t millis) noexcept;
  // OpenFile returns a descriptor, negative if the file cannot be read. ReadAndClose reads the
  // first bytes of the file and closes it.
  static int OpenFile(const char* path) noexcept;
  static long ReadAndClose(int file, char* to, size_t size) noexcept;
  // Reads the next bytes; returns 0 at the end.
  static long ReadFile(int file, char* to, size_t size) noexcept;
  // Reads bytes from offset `at` of the file.
  static long ReadFileAt(int file, void* to, size_t size, uint64_t at) noexcept;
  // Returns a descriptor of an empty file that its owner can read; negative if it cannot be
  // created.
  static int CreateFile(const char* path) noexcept;
  // False if not all bytes could be written.
  static bool WriteFile(int file, const char* from, size_t size) noexcept;
  static void CloseFile(int file) noexcept;
  // A word, and its value until an event changes it.
  struct Awaited {
    const void* word;
    uint32_t value;
  };
  // Waits as WaitFor does, or until another process wakes `request_word`, a word in a file that
  // never changes; true if that woke it. A stopped process misses the wake, but finds when it
  // continues that the other process has changed the word of `requested`. Kernels before 5.16
  // cannot wait for all of these words; this function then returns after at most 100 ms.
  static bool WaitForOrRequest(std::atomic<uint32_t>& word, uint32_t value, Awaited request_word,
                               Awaited requested, uint64_t millis) noexcept;
  static void WriteError(const char* text, size_t bytes) noexcept;
  static uint64_t ProcessId() noexcept;
  static uint32_t ThreadId() noexcept;
  static uint64_t NowNanos() noexcept;      // CLOCK_MONOTONIC
  static uint64_t NowUnixNanos() noexcept;  // CLOCK_REALTIME
  // Writes the pieces to a file `temporary` that every user can read, and renames it to `path`.
  static bool ReplaceFile(const char* path, const char* temporary, const FilePiece* pieces,
                          size_t count) noexcept;
  static void RemoveFile(const char* path) noexcept;
  [[noreturn]] static void Abort() noexcept;
  // Whether the 8 aligned bytes at `p` can be read. Does not change them.
  static bool IsReadable(const void* p) noexcept;
  // The CPUs that the calling thread may use, and their use by it.
  static CpuMask Cpus() noexcept;
  static void RunOn(const CpuMask& cpus) noexcept;
  // Gives the calling thread the ordinary scheduling policy, and the niceness of the main thread if
  // the system allows that.
  static void RunAsMainThread() noexcept;
  // Keeps the program's signals from the calling thread, but neither those that the C library needs
  // nor those of a fault; returns what RestoreSignals wants.
  static uint64_t BlockSignals() noexcept;
  static void RestoreSignals(uint64_t before) noexcept;
  // Registers the calling thread for restartable sequences with the structure at `area`; true as
  // well if it was registered with this structure before.
  static bool RegisterForRestart(void* area) noexcept;
  static void UnregisterForRestart(void* area) noexcept;
  // Whether the kernel runs restartable sequences for the calling thread with the structure at
  // `area`.
  static bool RegisteredForRestart(void* area) noexcept;
  // False if the kernel is one that lets a preempted thread go on in its sequence.
  static bool RestartsPreempted() noexcept;
};

// The number and time of the calls that purged memory in this process.
struct SystemCalls {
  std::atomic<uint64_t> release_calls{0}, release_nanos{0};
};

extern SystemCalls system_calls __attribute__((visibility("hidden")));

static_assert(Os<Linux>);

}  // namespace granary
