// A sorted index of the program's .eh_frame entries, in place of a missing .eh_frame_hdr: compilers
// do not request that section in static programs. The index is built once, from the section
// .eh_frame, which the section headers of the program's file locate.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "unwind/frame_entry.h"
#include "unwind/tables.h"

namespace granary::unwind {

struct Section {
  uintptr_t begin = 0, end = 0;
};

class EhFrameIndex {
 public:
  // Makes the index of the running program. The first call reads the program's file, and maps
  // memory if the file has no .eh_frame_hdr.
  void Make() noexcept;
  // Makes the index of a program at `begin` to `end` from its memory. False if it has no entries,
  // or memory is refused.
  bool MakeFrom(uintptr_t begin, uintptr_t end, const Section& frames) noexcept;

  // False if `pc` is not in the program, or there is no index.
  bool Find(uintptr_t pc, Tables* tables) const noexcept;

 private:
  std::atomic<bool> tried_{false};
  uintptr_t begin_ = 0, end_ = 0;
  FrameRow* row_ = nullptr;
  std::atomic<size_t> count_{0};
};

extern EhFrameIndex eh_frame_index __attribute__((visibility("hidden")));

}  // namespace granary::unwind
