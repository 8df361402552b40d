// Who called: the return addresses on the stack of the calling thread. No lock is taken, nothing is
// allocated, errno stays as it was, no memory is read that may fault, and the time is bounded by
// the number of frames: a signal handler may call it. docs/design/unwind.md
#pragma once

#include <cstddef>
#include <cstdint>

#include "unwind/registers.h"

namespace granary::unwind {

// Why a walk ended. Only kOutermost means that the stack is complete.
enum class Stop : uint8_t {
  kOutermost,   // the function that began the thread
  kFull,        // `max` frames were written
  kNoRule,      // code without tables whose frame pointer leads nowhere, as compiled at run time
  kUnreadable,  // a frame that lies where nothing can be read
  kNoProgress,  // a frame that does not lie further out than the one before
};

struct Result {
  Stop stop = Stop::kOutermost;
  bool guessed = false;  // a frame was found by its frame pointer alone
};

// Writes the return addresses from that of `start`'s function outwards. An address may be where a
// signal interrupted, which is then the address of an instruction and not of the one after a call.
size_t Walk(const Registers& start, uintptr_t* frames, size_t max, Result* result) noexcept;

// To be called before the first walk, and from time to time after it, from where the program cannot
// hold the loader's lock: not from malloc or a signal handler. Looks for modules that were loaded
// or unloaded, where the C library does not tell walkers about them without a lock.
void Refresh() noexcept;

}  // namespace granary::unwind
