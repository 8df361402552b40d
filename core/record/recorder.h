// Records allocation calls of the calling thread into a file that all threads of the process map.
#pragma once

#include "encoder.h"
#include "words.h"

namespace granary::record {

// What a thread writes with. All zeros in a new thread.
struct Log {
  enum Why : uint32_t {
    kBusy = 1,      // an event is being written; a signal handler's calls are then lost
    kInside = 2,    // realloc of the allocator below runs; calls that it makes are its own
    kDetailed = 4,  // events have contexts: their stacks, or how much was written
  };
  bool Is(Why why) const { return (closed & why) != 0; }
  void Set(Why why) { closed |= why; }
  void Clear(Why why) { closed &= ~static_cast<uint32_t>(why); }

  Words words;
  uint64_t generation;  // of the recording that the buffer belongs to
  uint32_t closed;      // why an event is more than a word
  uint32_t row;         // of the buffer in the file's table
  uint32_t thread;
  uint32_t pauses;
  const void* known;    // the object that a call inside this call has recorded
  const void* freeing;  // the object whose free is recorded before its nested calls
  Encoder packed;       // the thread's chunk, if it packs its events by itself
};

// At least a page, on every kernel.
#if defined(__aarch64__)
inline constexpr size_t kPageBytes = 64 << 10;
#else
inline constexpr size_t kPageBytes = 4 << 10;
#endif

// Shared by all threads. On pages of its own, which the kernel clears in a child of fork.
struct alignas(kPageBytes) Shared {
  uint64_t generation;  // 0: to be decided, kOff: nothing is recorded
  // An object whose hash is among the so many highest is not in the file; all, while nothing is
  // recorded. Zero until that is decided.
  uint64_t skipped;
  alignas(64) uint64_t clock;
};
inline constexpr uint64_t kOff = ~uint64_t{0};

extern constinit thread_local Log log __attribute__((tls_model("initial-exec")));
extern Shared shared [[gnu::visibility("hidden")]];

// A new chunk for the text of a thread that is none; nullptr if the file is full.
uint8_t* ChunkOf(uint32_t thread);
// Moves the clock on. A thread calls it every 64 words.
void Advance(Log& log);

// The hash is a product, all that a call costs whose object is not recorded. Of objects at equal
// distances up to 4 KiB this factor takes a sample that is about as even as a random one, or more.
// The golden ratio does not: one object in 1000 varied up to five times as much.
inline constexpr uint64_t kHashFactor = 0xE56ABD72FB710735;
inline bool IsSampled(const void* p) {
  return reinterpret_cast<uintptr_t>(p) * kHashFactor <= ~shared.skipped;
}

// Begins a recording in a running process, in a new file. False, with a message, if that fails.
bool Begin();
// Makes room for an event about p; false: it is not recorded. Leaves the thread busy if true.
bool Prepare(Log& log, const void* p);

// Writes an event that is a word, if nothing else is to be done. p is sampled.
inline bool PutWord(Log& log, Kind kind, size_t size, const void* p) {
  const Shared& s = shared;
  const auto address = reinterpret_cast<uintptr_t>(p);
  if (__builtin_expect(log.words.IsAtPause() || log.closed != 0, 0)) return false;
  if (__builtin_expect(s.generation != log.generation, 0)) return false;
  if (__atomic_load_n(&s.clock, __ATOMIC_RELAXED) != log.words.ticks()) return false;
  if (__builtin_expect(!FitsIntoWord(size, address), 0)) return false;
  log.closed = Log::kBusy;
  asm volatile("" ::: "memory");
  log.words.Put(WordOf(kind, size, address));
  asm volatile("" ::: "memory");
  log.closed = 0;
  return true;
}

// Any other event. p is sampled.
template <class Write>
inline void Record(Log& log, const void* p, Write write) {
  const Shared& s = shared;
  if (s.generation == log.generation && !log.Is(Log::kBusy) && log.words.HasRoom()) {
    log.Set(Log::kBusy);
  } else if (!Prepare(log, p)) {
    return;
  }
  asm volatile("" ::: "memory");
  if (log.words.IsAtPause()) Advance(log);
  write(log.words, __atomic_load_n(&s.clock, __ATOMIC_RELAXED));
  asm volatile("" ::: "memory");
  log.Clear(Log::kBusy);
}

}  // namespace granary::record
