// The low-water mark of a stock during one decay interval. The stock did not need that many
// elements, so they can move one layer down. The other elements are in use by turns and worth
// keeping.
#pragma once

#include <cstddef>

namespace granary {

class LowWater {
 public:
  void Note(size_t level) {
    if (level < lowest_) lowest_ = level;
  }

  // The lowest level so far in this decay interval.
  size_t lowest() const { return lowest_; }

  // Ends a decay interval. Returns the number of idle elements and starts the next interval at
  // `level`.
  size_t EndInterval(size_t level) {
    const size_t idle = lowest_ < level ? lowest_ : level;
    lowest_ = level;
    return idle;
  }

 private:
  size_t lowest_ = 0;
};

}  // namespace granary
