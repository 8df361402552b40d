// The return addresses on the stack of the calling thread. A signal handler may call it: it takes
// no lock, allocates nothing, keeps errno, reads no memory that may fault, and its time is bounded
// by the number of frames. docs/design/unwind.md
#pragma once

#include <cstddef>
#include <cstdint>

#include "unwind/registers.h"

namespace granary::unwind {

// Why a walk ended. Only kOutermost means that the stack is complete.
enum class Stop : uint8_t {
  kOutermost,  // reached the first function of the thread
  kFull,       // `max` frames were written
  // reached code without tables whose frame pointer leads to no frame, as in code generated at run
  // time
  kNoRule,
  kUnreadable,  // reached a frame that cannot be read
  kNoProgress,  // reached a frame that is not further out than the frame before
};

struct Result {
  Stop stop = Stop::kOutermost;
  bool guessed = false;  // at least one frame was found by its frame pointer alone
};

// Writes the return addresses from the function of `start` outwards. Where a signal interrupted a
// function, the address is that of an instruction, and not that of the instruction after a call.
size_t Walk(const Registers& start, uintptr_t* frames, size_t max, Result* result) noexcept;

// Call it before the first walk, and from time to time after it, where the program cannot hold the
// loader's lock: not in malloc or a signal handler. Where the C library does not report modules to
// walkers without a lock, it finds modules that were loaded or unloaded.
void Refresh() noexcept;

}  // namespace granary::unwind
