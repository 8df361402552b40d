// The operations of a trace, in their order (bench/programs/replay_plan.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../bench/programs/replay_plan.h"

namespace granary::simulate {

class Sequence {
 public:
  // Maps the file. Ends the program with a message if it is not a whole sequence.
  explicit Sequence(const char* path);

  const replay::Operation* begin() const { return first_; }
  const replay::Operation* end() const { return first_ + count_; }
  size_t slots() const { return slots_; }

 private:
  const replay::Operation* first_ = nullptr;
  size_t count_ = 0;
  size_t slots_ = 0;
};

}  // namespace granary::simulate
