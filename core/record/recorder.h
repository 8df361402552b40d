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
  uint64_t skipped;     // an object whose hash is among the so many highest is not in the file
  alignas(64) uint64_t clock;
};
inline constexpr uint64_t kOff = ~uint64_t{0};

extern thread_local Log log __attribute__((tls_model("initial-exec")));
extern Shared* shared;

// Gives the thread room for an event; false: nothing is recorded.
bool MakeRoom(Log& log);
void CountLost();
// Moves the clock on. A thread calls it every 64 events.
void Advance(Log& log);

inline bool IsSampled(const Shared& s, const void* p) {
  return (reinterpret_cast<uintptr_t>(p) >> 3) * 0x9E3779B97F4A7C15u <= ~s.skipped;
}

template <class Write>
inline void Record(Log& log, const void* p, Write write) {
  Shared& s = *shared;
  if (s.generation == kOff || !IsSampled(s, p)) return;
  if (log.busy) return CountLost();
  log.busy = true;
  asm volatile("" ::: "memory");
  const bool ready = s.generation == log.generation && log.encoder.HasRoom();
  if (ready ||
      (MakeRoom(log) && IsSampled(*shared, p))) {  // the first event decides what is sampled
    if ((++log.events & 63) == 0) Advance(log);
    write(log.encoder, __atomic_load_n(&shared->clock, __ATOMIC_RELAXED));
  }
  asm volatile("" ::: "memory");
  log.busy = false;
}

}  // namespace granary::record
