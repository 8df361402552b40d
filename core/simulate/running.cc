#include "simulate/running.h"

#include <algorithm>

namespace granary::simulate {

unsigned Scheduler::FindIdlest() const {
  return static_cast<unsigned>(std::min_element(last_.begin(), last_.end()) - last_.begin());
}

unsigned Scheduler::Run(uint32_t thread) {
  if (thread >= cpu_of_.size()) cpu_of_.resize(thread + 1, 0);
  const bool known = cpu_of_[thread] != 0;
  unsigned cpu = known ? cpu_of_[thread] - 1 : 0;
  if (!known || running_[cpu] != thread) cpu = FindIdlest();
  running_[cpu] = thread;
  last_[cpu] = ++turn_;
  cpu_of_[thread] = cpu + 1;
  RunOn(cpu, known);
  return cpu;
}

}  // namespace granary::simulate
