// Whether the program fills the heap: it freed little of what it allocated lately. The pages of
// such a heap fill up, even with objects of many sizes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hint.h"
#include "layers/class_figures.h"

namespace granary {

class Filling {
 public:
  // Called for each step of growth, with the bytes of that moment. If two threads call it at the
  // same time, an answer may be wrong.
  bool Note(const ObjectBytes& now) noexcept {
    Point& oldest = points_[at_ % kPoints];
    at_ = at_ + 1;
    const bool grew = now.live > oldest.live;
    const uint64_t live = now.live - oldest.live, allocated = now.allocated - oldest.allocated;
    oldest.live = now.live;
    oldest.allocated = now.allocated;
    return grew && allocated <= live + live / kParts;
  }

 private:
  static constexpr uint32_t kPoints = 8;  // steps that count as lately
  static constexpr uint64_t kParts = 8;   // of what became live, at most this part was freed
  struct Point {
    Hint<uint64_t> live, allocated;
  };
  Point points_[kPoints];
  Hint<uint32_t> at_;
};

}  // namespace granary
