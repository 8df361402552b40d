// The file that the recorder writes. docs/reference/trace-format.md describes it; the reader is
// tool/internal/trace.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary::record {

inline constexpr char kMagic[8] = {'g', 'r', 'a', 'n', 'r', 'e', 'c', '\n'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kVersionWithStacks = 2;
inline constexpr uint32_t kVersionOverwritten = 3;  // with stacks or without
inline constexpr uint32_t kVersionWithWritten = 4;  // all of the above or not
// Both are whole pages with pages of up to 64 KiB.
inline constexpr size_t kHeaderBytes = 64 << 10;
inline constexpr size_t kChunkBytes = 64 << 10;
inline constexpr size_t kTextBytes = 1024;

// The low three bits of an event's first byte; 0 ends a chunk, whose bytes begin as zeros.
enum class Kind : uint8_t {
  kAllocated = 1,  // size, address
  kZeroed = 2,     // size, address: calloc
  kAligned = 3,    // size, log2 of the alignment, address
  kFreed = 4,      // address
  kMoving = 5,     // address of an object that realloc may move or free
  kMoved = 6,      // size, address: where realloc left it; address 0: realloc failed
  kOther = 7,      // the high bits say what
};
inline constexpr unsigned kKindBits = 3;
// What is no event.
enum class Other : uint8_t {
  kThread = 0,        // thread, time: another thread goes on in this chunk
  kStack = 1,         // number of the stack of the next allocation in this chunk
  kDefinesStack = 2,  // number, count, return addresses from the innermost on, as distances
  kWritten = 3,       // KiB of the next freed or moved object in this chunk that were written
};
// The thread of a chunk that holds definitions of stacks alone.
inline constexpr uint32_t kDefinitionsThread = ~uint32_t{1};
// The thread of a chunk that holds text: rows of /proc/self/maps, for the names of stacks.
inline constexpr uint32_t kMapsThread = ~uint32_t{0};
// The high bits are the time since the thread's last event; this value says that a number follows.
inline constexpr uint64_t kLongTime = 31;
inline constexpr size_t kMaxFrames = 24;
// Two bytes for the kind and the alignment and four numbers of at most ten, the number of a stack,
// its definition, and the written part of an object.
inline constexpr size_t kMaxEventBytes = 2 + 4 * 10 + 6 + 1 + 2 * 5 + kMaxFrames * 10 + 11;

// Why recording ended before the program did.
enum class Stop : uint32_t { kRunning = 0, kFull = 1, kNoSpace = 2, kInUse = 3 };

// A time stamp in both clocks. Two of them convert ticks to nanoseconds.
struct Stamp {
  uint64_t ticks;
  uint64_t nanoseconds;  // CLOCK_MONOTONIC
};

struct Header {
  char magic[sizeof kMagic];
  uint32_t version;
  uint32_t chunk_bytes;
  uint64_t chunks;      // chunks in use; the file may be longer
  uint64_t max_chunks;  // the program's limit
  uint64_t sample;      // one object in so many is in the file
  uint64_t lost;        // events that a signal handler caused while another was written
  uint64_t pid;
  uint64_t unix_nanoseconds;  // wall clock at `first`
  Stamp first, last;
  Stop stop;
  uint32_t forked;             // 1: a child of fork, whose heap was its parent's
  char allocator[kTextBytes];  // path of the library whose malloc was called
  char program[kTextBytes];    // path of the executable
  uint64_t overwritten;        // ticks: events up to then are incomplete; 0: none is overwritten
};
static_assert(sizeof(Header) <= kHeaderBytes);

struct ChunkHeader {
  uint32_t thread;
  uint32_t reserved;
  uint64_t ticks;  // time of the first event's predecessor
};

}  // namespace granary::record
