// The samples, in a mapping of their own: a head, then arrays. The descriptor gives their offsets
// and row sizes (inspection/descriptor.def; docs/design/profile.md). Writers hold the profile's
// lock. A reader outside the process takes no lock: each row has a sequence number that is odd
// while the row changes, so a row that reads the same twice with an even number is consistent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "sizes/size_classes.h"

namespace granary::samples {

// Number of rows of each array. A sample without a free row is counted as lost.
inline constexpr size_t kMostStacks = size_t{1} << 14;
inline constexpr size_t kMostFrames = size_t{1} << 20;
inline constexpr size_t kMostSamples = size_t{1} << 18;
inline constexpr size_t kBuckets = 4096;  // hash buckets of stacks
inline constexpr size_t kMostDepth = 128;

// Estimated numbers of objects are in units of 1 / kObjectScale. All sums are therefore sums of
// integers, and a free subtracts exactly what the allocation added.
inline constexpr uint64_t kObjectScale = 65536;

// Row i of a histogram of lifetimes: objects that were freed within 2^i milliseconds, but not
// within 2^(i-1). The last row holds all longer lifetimes.
inline constexpr size_t kLifetimes = 24;
// An object that its own thread frees within this time is temporary.
inline constexpr uint64_t kTemporaryNanos = 1000000;

// Row i of a histogram of sizes: requests of at most 2^i bytes, but of more than 2^(i-1). The last
// row holds all larger requests.
inline constexpr size_t kSizes = 48;

// Number of threads whose samples are counted apart. A further row counts all other threads.
inline constexpr size_t kMostThreads = 256;

// An estimate of a set of objects.
struct Amount {
  uint64_t samples;
  uint64_t objects;    // in units of 1 / kObjectScale
  uint64_t bytes;      // of the objects: sizes of their classes, whole OS pages of blocks
  uint64_t requested;  // requested by the program
};

struct Stack {
  uint32_t sequence;
  uint32_t next;  // 1 + the row of the next stack in its bucket; 0 at the end
  uint64_t hash;
  uint32_t first_frame;  // index of its first frame
  uint32_t depth;
  uint64_t first_nanos, last_nanos;  // CLOCK_MONOTONIC, of the first and the last sample
  Amount allocated, freed;           // the objects in use are the difference
  Amount temporary;                  // part of `freed`
  uint64_t peak_bytes, peak_nanos;   // peak of the bytes in use, and its time
  uint64_t lifetimes[kLifetimes];    // of freed objects, in objects / kObjectScale
};

// A sampled object that is in use.
struct Sample {
  uint64_t address;  // 0: the row is free
  uint32_t sequence;
  uint32_t stack;  // row of its stack; in a free row 1 + the next free row
  uint64_t bytes;  // of this one object
  uint64_t requested;
  uint64_t objects;     // number of objects that it stands for, in units of 1 / kObjectScale
  uint64_t nanos;       // CLOCK_MONOTONIC, time of the allocation
  uint32_t thread;      // thread of the allocation, as from gettid
  uint16_t size_class;  // 0: a block
  uint16_t state;
  uint64_t padding;
};

struct Lost {
  uint64_t stacks;      // samples without a row for their stack
  uint64_t samples;     // in-use samples without a row
  uint64_t reentered;   // samples on a thread that was already recording one
  uint64_t late;        // samples that fell due while a cache waited for its next countdown
  uint64_t late_bytes;  // their estimated bytes
};

// How stacks ended, in samples. A sample that none of these fields includes has a complete stack.
struct Ends {
  uint64_t cut;      // stacks with the maximum number of frames
  uint64_t early;    // stacks that end at code or a frame without an unwinding rule
  uint64_t guessed;  // stacks with frames that were found by frame pointers alone, complete or not
};

// What a thread allocated and freed. Rows are found by the hash of the thread.
struct ThreadRow {
  uint32_t thread;  // as from gettid; 0: the row is free, or the one of all other threads
  uint32_t padding;
  Amount allocated, freed;
};

struct Head {
  uint64_t generation;     // changes whenever the samples are discarded; 0 when there is no profile
  uint64_t rate;           // mean bytes between two samples
  uint64_t active;         // 1 while samples are taken
  uint64_t started_nanos;  // CLOCK_MONOTONIC, when the profile began
  uint64_t started_unix_nanos;       // the same moment in CLOCK_REALTIME
  uint64_t taken;                    // samples since the profile began
  uint32_t stacks, frames, samples;  // rows that were ever used, from the first row on
  uint32_t free_sample;              // 1 + the first free row below `samples`; 0 if there is none
  uint32_t live_samples;
  uint32_t padding;
  Lost lost;
  Ends ends;
  Amount allocated, freed;  // sums over all stacks
  // Exact figures from the counters: allocations before the profile began. Class 0 stands for
  // blocks, whose live bytes are in `large_live_bytes`.
  uint64_t allocations_before[kMaxClasses];
  uint64_t live_before[kMaxClasses];
  uint64_t large_live_bytes;
  // Of all samples, also of those without a row for their stack or for themselves.
  uint64_t sizes[kSizes];  // of requests, in objects / kObjectScale
  ThreadRow threads[kMostThreads + 1];
};

// Offsets of the arrays from the head.
struct Place {
  static constexpr size_t kBucketsAt = RoundUp(sizeof(Head), size_t{4096});
  static constexpr size_t kStacksAt = kBucketsAt + kBuckets * sizeof(uint32_t);
  static constexpr size_t kFramesAt = kStacksAt + kMostStacks * sizeof(Stack);
  static constexpr size_t kSamplesAt = kFramesAt + kMostFrames * sizeof(uint64_t);
  static constexpr size_t kIndexAt = kSamplesAt + kMostSamples * sizeof(Sample);
  // Two tables of addresses, used in turn (samples/index.h).
  static constexpr size_t kIndexWords = 2 * kMostSamples;
  static constexpr size_t kBytes = kIndexAt + 2 * kIndexWords * sizeof(uint64_t);
};

static_assert(sizeof(Sample) == 64 && sizeof(Stack) % 8 == 0);

}  // namespace granary::samples
