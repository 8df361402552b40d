// The file that option `backing` names. The address space of the heap is then a shared mapping of
// it: objects lie in the file, whose pages leave memory without swap. The file has no name any
// more, and goes with the process. docs/guides/file-backed-heap.md is the user's view.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "os/spin_lock.h"

namespace granary {

class BackingFile {
 public:
  // Creates the file PATH.PID, maps it without access and sets `backing_file`. On failure, warns
  // with one message and returns false; the heap is then in anonymous memory.
  static bool Open(const char* path) noexcept;

  bool Has(const void* p) const noexcept { return AddressOf(p) - base_ < bytes_; }

  // As Linux's functions of these names. Reserve and Unmap take whole regions.
  void* Reserve(size_t bytes) noexcept;
  // Allocates the blocks on the disk as well, so that no later write can fail.
  bool Commit(void* p, size_t bytes) noexcept;
  void Decommit(void* p, size_t bytes) noexcept;
  void Unmap(void* p, size_t bytes) noexcept;
  // Keeps the blocks, where the file system can.
  bool Purge(void* p, size_t bytes) noexcept;

  // The child of a fork would share a shared mapping with its parent: it gets a copy of the file
  // instead, which PrepareFork makes. `locked`: whether the lock is taken meanwhile.
  void PrepareFork(bool locked) noexcept;
  void AfterFork(bool child, bool locked) noexcept;

 private:
  struct Range {
    size_t at, bytes;
  };
  // A descriptor that the program may have closed, and what tells the file from another one.
  struct File {
    int number = -1;
    uint64_t device = 0, inode = 0;

    bool IsOpen() const noexcept;
    void Close() noexcept;
  };
  static constexpr size_t kMostGaps = 64, kMostPath = 200;

  bool Begin(const char* path) noexcept;
  // 0, or a negative error; so do the functions that copy.
  long Create(const char* suffix, File* file) noexcept;
  bool Size() noexcept;
  bool MapWhole() noexcept;
  bool Refuse(const char* what, long error) noexcept;
  size_t OffsetOf(const void* p) const noexcept { return AddressOf(p) - base_; }
  void Mark(size_t at, size_t bytes, bool committed) noexcept;
  // The next run of committed pages from `at` on; empty at the end.
  Range NextCommitted(size_t at) const noexcept;
  bool Punch(size_t at, size_t bytes) noexcept;
  long CopyThroughBuffer(const File& to, Range run) noexcept;
  long CopyRun(const File& to, Range run) noexcept;
  long CopyTo(File* copy) noexcept;
  [[noreturn]] void DieWithoutCopy() const noexcept;
  void TakeCopy() noexcept;

  uintptr_t base_ = 0;
  size_t bytes_ = 0;               // of the mapping: what the file could hold
  size_t reserved_ = 0;            // the first so many bytes were given out
  Range gaps_[kMostGaps];          // returned again
  uint64_t* committed_ = nullptr;  // a bit for each page: option hardened decommits single pages
  File file_, copy_;
  long copy_error_ = 0;  // of the newest copy: 0, or negative
  char path_[kMostPath];
  bool zeroes_ = true;  // the file system can zero a range and keep its blocks
  bool warned_full_ = false;
  SpinLock lock_;
};

// nullptr without the option: few processes have such an object, so it lies in memory of its own.
extern BackingFile* backing_file __attribute__((visibility("hidden")));

// Whether p is in the heap's file.
inline bool IsBacked(const void* p) noexcept {
  return backing_file != nullptr && backing_file->Has(p);
}

}  // namespace granary
