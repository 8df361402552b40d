// The machine of a simulation: the library's system (linux.cc) is this instead of the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulate/background.h"
#include "simulate/pages.h"

namespace granary::simulate {

// Ends the program with a message.
[[noreturn]] void Fail(const char* message);

// What the machine has. The environment says it, because the library reads it before main.
struct Hardware {
  unsigned cpus = 1;
  unsigned nodes = 1;
  uint64_t memory = 0;  // bytes; 0: no limit
  bool huge_pages = true;
};

struct CallCounts {
  uint64_t mmap = 0, munmap = 0, mprotect = 0, madvise = 0, mremap = 0, membarrier = 0;
};

class Machine {
 public:
  // Called once, before the library reads the machine.
  void Start();

  // Real memory, for the library's metadata.
  void* Map(size_t bytes, size_t alignment) noexcept;
  void Unmap(void* p, size_t bytes) noexcept;
  // Bytes of that memory that are resident.
  uint64_t MappedResident() const;

  uint64_t nanos() const { return nanos_; }
  // The same, for a loop of the library that may wait for the time to pass, which it does not.
  uint64_t ReadClock() {
    if (++reads_ > kMostReads)
      Fail("the library waits for the clock without sleeping; this is a bug");
    return nanos_;
  }
  // Lets the background thread work whenever it is due, until the clock is at `nanos`.
  void AdvanceTo(uint64_t nanos);
  // Before a call of the program: lets the background thread work if the last call has woken it.
  void LetBackgroundRun() {
    reads_ = 0;
    if (background.started() && background.IsWoken()) AdvanceTo(nanos_);
  }
  // The integral of resident bytes of the heap over nanoseconds.
  double resident_time() const { return resident_time_; }

  Hardware hardware;
  unsigned node = 0;  // of the CPU that runs
  CallCounts calls;
  Pages pages;
  Background background;

 private:
  struct Mapping {
    char* p;
    size_t bytes;
  };
  static constexpr uint64_t kMostReads = 10'000'000;
  void SetClock(uint64_t nanos);

  // Any time but zero, which the library takes for unknown.
  uint64_t nanos_ = 1'000'000'000;
  uint64_t reads_ = 0;  // of the clock since it moved
  double resident_time_ = 0;
  std::vector<Mapping> mapped_;
};

extern Machine machine;

}  // namespace granary::simulate
