// Which simulated thread runs, and on which CPU.
#pragma once

#include <cstdint>
#include <vector>

namespace granary::simulate {

// The calling thread is from now on one that runs on this CPU; one that has not registered
// registers with its next call of the library.
void RunOn(unsigned cpu, bool registered);

// A thread keeps its CPU until another one, which has none, needs a CPU and this one has been idle
// for the longest time.
class Scheduler {
 public:
  explicit Scheduler(unsigned cpus) : running_(cpus, kNobody), last_(cpus, 0) {}

  // Makes `thread` the one that runs; returns its CPU.
  unsigned Run(uint32_t thread);

 private:
  static constexpr uint32_t kNobody = ~uint32_t{0};
  unsigned FindIdlest() const;

  std::vector<uint32_t> running_;  // the thread of each CPU
  std::vector<uint64_t> last_;     // the turn in which each CPU was used last
  std::vector<unsigned> cpu_of_;   // of each thread, plus one; 0: it never ran
  uint64_t turn_ = 0;
};

}  // namespace granary::simulate
