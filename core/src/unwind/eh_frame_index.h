// A table of the program's frame entries for where the linker left it out (.eh_frame_hdr):
// compilers do not ask for it in static programs. It is made once, from the section .eh_frame,
// which the section headers of the program's file tell.
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
  // The first time, for the program that runs: reads its file and maps memory if it has no table.
  void Make() noexcept;
  // For the program from `begin` to `end`, from what is in memory; false if there are no entries,
  // or no memory.
  bool MakeFrom(uintptr_t begin, uintptr_t end, const Section& frames) noexcept;

  // False if `pc` is not in the program, or nothing was made.
  bool Find(uintptr_t pc, Tables* tables) const noexcept;

 private:
  std::atomic<bool> tried_{false};
  uintptr_t begin_ = 0, end_ = 0;
  FrameRow* row_ = nullptr;
  std::atomic<size_t> count_{0};
};

extern EhFrameIndex eh_frame_index __attribute__((visibility("hidden")));

}  // namespace granary::unwind
