// The stacks of recorded allocations. Each is defined in the file once, at its first allocation.
#pragma once

#include "words.h"

namespace granary::record {

class Stacks {
 public:
  // Before the first event of a file. False, with a message, if there is no memory.
  bool Start();
  bool on() const { return numbers_ != nullptr; }
  void Stop() { numbers_ = nullptr; }

  // Writes the number of the calling thread's stack; if it is new, its definition elsewhere.
  void Write(Words& words);

 private:
  static constexpr uint32_t kSlots = 1 << 16;
  static constexpr uint32_t kMost = kSlots / 4 * 3;

  // The number of a stack, from 1 on; 0: the table is full.
  uint32_t NumberOf(uint64_t hash, bool* isNew);

  uint64_t* numbers_;  // hashes; the index of one is its number
  uint64_t* memory_;
  uint32_t used_;
};

extern Stacks stacks;

}  // namespace granary::record
