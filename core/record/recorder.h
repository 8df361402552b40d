// Records allocation calls of the calling thread into a file that all threads of the process map.
#pragma once

#include "encoder.h"

namespace granary::record {

// What a thread writes with. All zeros in a new thread.
struct Log {
  Encoder encoder;
  uint64_t generation;  // of the recording that the encoder's chunk belongs to
  uint32_t thread;
  uint32_t events;
  bool busy;            // an event is being written; a signal handler's calls are then lost
  bool inside;          // realloc of the allocator below runs; calls that it makes are its own
  const void* known;    // the object that a call inside this call has recorded
  const void* freeing;  // the object whose free is recorded before its nested calls
};

// Shared by all threads. In memory that the kernel clears in a child of fork.
struct alignas(64) Shared {
  uint64_t generation;  // 0: to be decided, kOff: nothing is recorded
  // An object whose hash is among the so many highest is not in the file; all, while nothing is
  // recorded. Zero until that is decided.
  uint64_t skipped;
  alignas(64) uint64_t clock;
};
inline constexpr uint64_t kOff = ~uint64_t{0};

extern constinit thread_local Log log __attribute__((tls_model("initial-exec")));
extern Shared* shared;

// A new chunk for the text of a thread that is none; nullptr if the file is full.
uint8_t* ChunkOf(uint32_t thread);
// Moves the clock on. A thread calls it every 64 events.
void Advance(Log& log);

// All that a call costs whose object is not recorded.
inline bool IsSampled(const void* p) {
  return (reinterpret_cast<uintptr_t>(p) >> 3) * 0x9E3779B97F4A7C15u <= ~shared->skipped;
}

// Begins a recording in a running process, in a new file. False, with a message, if that fails.
bool Begin();
// Makes room for an event about p; false: it is not recorded. Leaves the thread busy if true.
bool Prepare(Log& log, const void* p);

// p is sampled.
template <class Write>
inline void Record(Log& log, const void* p, Write write) {
  const Shared& s = *shared;
  if (s.generation == log.generation && !log.busy && log.encoder.HasRoom()) {
    log.busy = true;
  } else if (!Prepare(log, p)) {
    return;
  }
  asm volatile("" ::: "memory");
  if ((++log.events & 63) == 0) Advance(log);
  write(log.encoder, __atomic_load_n(&s.clock, __ATOMIC_RELAXED));
  asm volatile("" ::: "memory");
  log.busy = false;
}

}  // namespace granary::record
