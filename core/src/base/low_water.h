// What was never needed during a whole window of time: the lowest level a stock fell to. That much
// can go back one layer down; the rest is in use by turns and worth keeping.
#pragma once

#include <cstddef>

namespace granary {

class LowWater {
 public:
  void Note(size_t level) {
    if (level < lowest_) lowest_ = level;
  }

  // The lowest so far in this window.
  size_t lowest() const { return lowest_; }

  // Ends a window: returns what lay idle through it and starts the next at `level`.
  size_t EndWindow(size_t level) {
    const size_t idle = lowest_ < level ? lowest_ : level;
    lowest_ = level;
    return idle;
  }

 private:
  size_t lowest_ = 0;
};

}  // namespace granary
