// Linux, by bare system calls: no errno is touched, nothing allocates.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/os.h"

namespace granary {

// As the kernel's struct iovec.
struct FilePiece {
  const void* p;
  size_t bytes;
};

struct Linux {
  static void* Map(size_t bytes, size_t alignment, void* hint) noexcept;
  static void Unmap(void* p, size_t bytes) noexcept;
  static bool Release(void* p, size_t bytes) noexcept;
  static bool Populate(void* p, size_t bytes) noexcept;
  static void AllowHuge(void* p, size_t bytes, bool allow) noexcept;
  static void SplitHuge(void* p) noexcept;
  static size_t MovePages(void* from, size_t bytes, void* to) noexcept;
  static size_t PageSize() noexcept;
  static uint64_t NowMillis() noexcept;
  static uint64_t ThreadNanos() noexcept;
  static unsigned CpuCount() noexcept;
  static size_t CpuLimit() noexcept;
  static bool AbortRestartables() noexcept;
  static void Wait(std::atomic<uint32_t>& word, uint32_t value) noexcept;
  static void Wake(std::atomic<uint32_t>& word) noexcept;

  // Beyond the concept: what only the entry layer and the messages use.
  static void SleepMicros(uint64_t micros) noexcept;
  // Wait, for at most `millis`.
  static void WaitFor(std::atomic<uint32_t>& word, uint32_t value, uint64_t millis) noexcept;
  // A descriptor, negative if the file cannot be read; and its first bytes, after which it is
  // closed.
  static int OpenFile(const char* path) noexcept;
  static long ReadAndClose(int file, char* to, size_t size) noexcept;
  // The next bytes; 0 at the end.
  static long ReadFile(int file, char* to, size_t size) noexcept;
  // Bytes from a place in the file on.
  static long ReadFileAt(int file, void* to, size_t size, uint64_t at) noexcept;
  // A descriptor of an empty file, readable for its owner; negative if there cannot be one.
  static int CreateFile(const char* path) noexcept;
  // False if not all of it could be written.
  static bool WriteFile(int file, const char* from, size_t size) noexcept;
  static void CloseFile(int file) noexcept;
  // A word and the value it has until something happens.
  struct Awaited {
    const void* word;
    uint32_t value;
  };
  // WaitFor, or until somebody rings `bell`, a word that is in a file and never changes; true if
  // it was rung. A process that is stopped misses that: when it goes on it also finds that `asked`,
  // whose word somebody outside wrote, has changed. Kernels before 5.16 cannot wait for all of
  // these: it looks 10 times a second.
  static bool WaitForOrBell(std::atomic<uint32_t>& word, uint32_t value, Awaited bell,
                            Awaited asked, uint64_t millis) noexcept;
  static void WriteError(const char* text, size_t bytes) noexcept;
  static uint64_t ProcessId() noexcept;
  static uint32_t ThreadId() noexcept;
  static uint64_t NowNanos() noexcept;      // CLOCK_MONOTONIC
  static uint64_t NowUnixNanos() noexcept;  // CLOCK_REALTIME
  // Writes the pieces to a file `temporary`, readable for everybody, and makes it the file `path`.
  static bool ReplaceFile(const char* path, const char* temporary, const FilePiece* pieces,
                          size_t count) noexcept;
  static void RemoveFile(const char* path) noexcept;
  [[noreturn]] static void Abort() noexcept;
  // Whether the 8 aligned bytes at `p` can be read; nothing else happens to them.
  static bool IsReadable(const void* p) noexcept;
  // Whether the kernel runs restartable sequences for the calling thread at `area`.
  static bool RegisteredForRestart(void* area) noexcept;
};

// What the calls that give memory back amount to in this process.
struct SystemCalls {
  std::atomic<uint64_t> release_calls{0}, release_nanos{0};
};

extern SystemCalls system_calls __attribute__((visibility("hidden")));

static_assert(Os<Linux>);

}  // namespace granary
