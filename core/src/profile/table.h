// What sampling has seen, in one mapping of its own: a head, then arrays whose places and row sizes
// the descriptor tells (reflect/layout.def; docs/design/profile.md). Written
// under the profile's lock only. A reader outside takes no lock: each row has a sequence number
// that is odd while the row changes, so a row that reads alike twice with an even number is whole.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "sizes/size_classes.h"

namespace granary::profile {

// Rows of each array; what finds no room is counted as lost.
inline constexpr size_t kMostStacks = size_t{1} << 14;
inline constexpr size_t kMostFrames = size_t{1} << 20;
inline constexpr size_t kMostSamples = size_t{1} << 18;
inline constexpr size_t kBuckets = 4096;  // of stacks, by hash
inline constexpr size_t kMostDepth = 128;

// Estimated numbers of objects are in units of 1 / kObjectScale, so that all sums are of integers
// and what is subtracted is exactly what was added.
inline constexpr uint64_t kObjectScale = 65536;

// Row i of a histogram of lifetimes: freed within 2^i milliseconds, but not within 2^(i-1); the
// last row holds all that lived longer.
inline constexpr size_t kLifetimes = 24;
// An object that its own thread freed within this time is temporary.
inline constexpr uint64_t kTemporaryNanos = 1000000;

// An estimate of a set of objects.
struct Amount {
  uint64_t samples;
  uint64_t objects;    // in units of 1 / kObjectScale
  uint64_t bytes;      // that the objects take: sizes of their classes, whole pages of large blocks
  uint64_t requested;  // that the program asked for
};

struct Stack {
  uint32_t sequence;
  uint32_t next;  // 1 + the row of the next stack in its bucket; 0 at the end
  uint64_t hash;
  uint32_t first_frame;  // its place among the frames
  uint32_t depth;
  uint64_t first_nanos, last_nanos;  // CLOCK_MONOTONIC, of its first and last sample
  Amount allocated, freed;           // in use is the difference
  Amount temporary;                  // of those freed
  uint64_t peak_bytes, peak_nanos;   // the most bytes in use, and when
  uint64_t lifetimes[kLifetimes];    // of those freed, in objects / kObjectScale
};

// A sampled object that is in use.
struct Sample {
  uint64_t address;  // 0: the row is free
  uint32_t sequence;
  uint32_t stack;  // its row; in a free row 1 + the next free row
  uint64_t bytes;  // of this one object
  uint64_t requested;
  uint64_t objects;     // that it stands for, in units of 1 / kObjectScale
  uint64_t nanos;       // CLOCK_MONOTONIC, when it was allocated
  uint32_t thread;      // that allocated it, as gettid
  uint16_t size_class;  // 0: a large block
  uint16_t state;
  uint64_t padding;
};

struct Lost {
  uint64_t stacks;      // samples for whose stack there was no room
  uint64_t samples;     // in-use samples for which there was no room
  uint64_t reentered;   // samples taken while their thread was already recording one
  uint64_t late;        // samples that fell due while a cache waited for its next countdown
  uint64_t late_bytes;  // their estimated bytes
};

// How stacks ended, in samples; those that none of these counts are whole.
struct Ends {
  uint64_t cut;      // at the most frames that are kept
  uint64_t early;    // at code or a frame from which there is no way on
  uint64_t guessed;  // whole or not, some frames were found by their frame pointers alone
};

struct Head {
  uint64_t generation;  // changes whenever what was collected is discarded; 0 when there is nothing
  uint64_t rate;        // bytes: the mean distance between samples
  uint64_t active;      // 1 while samples are taken
  uint64_t started_nanos;            // CLOCK_MONOTONIC; when collecting began
  uint64_t started_unix_nanos;       // the same moment in CLOCK_REALTIME
  uint64_t taken;                    // samples so far
  uint32_t stacks, frames, samples;  // rows that were ever used, from the first on
  uint32_t free_sample;              // 1 + the first free row below `samples`; 0 if there is none
  uint32_t live_samples;
  uint32_t padding;
  Lost lost;
  Ends ends;
  Amount allocated, freed;  // sums over all stacks
  // Exact, from the counters: allocations until collecting began; class 0 stands for large blocks,
  // whose live bytes are in `large_live_bytes`.
  uint64_t allocations_before[kMaxClasses];
  uint64_t live_before[kMaxClasses];
  uint64_t large_live_bytes;
};

// Offsets from the head.
struct Place {
  static constexpr size_t kBucketsAt = RoundUp(sizeof(Head), size_t{4096});
  static constexpr size_t kStacksAt = kBucketsAt + kBuckets * sizeof(uint32_t);
  static constexpr size_t kFramesAt = kStacksAt + kMostStacks * sizeof(Stack);
  static constexpr size_t kSamplesAt = kFramesAt + kMostFrames * sizeof(uint64_t);
  static constexpr size_t kIndexAt = kSamplesAt + kMostSamples * sizeof(Sample);
  // Two tables of addresses in turn (profile/index.h).
  static constexpr size_t kIndexWords = 2 * kMostSamples;
  static constexpr size_t kBytes = kIndexAt + 2 * kIndexWords * sizeof(uint64_t);
};

static_assert(sizeof(Sample) == 64 && sizeof(Stack) % 8 == 0);

}  // namespace granary::profile
