// The file that the recorder writes. docs/reference/trace-format.md describes it; the reader is
// tool/internal/trace.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary::record {

inline constexpr char kMagic[8] = {'g', 'r', 'a', 'n', 'r', 'e', 'c', '\n'};
inline constexpr uint32_t kVersion = 5;
// Both are whole pages with pages of up to 64 KiB.
inline constexpr size_t kHeaderBytes = 64 << 10;
inline constexpr size_t kChunkBytes = 64 << 10;
inline constexpr size_t kTextBytes = 1024;

// A thread writes its events as words of 8 bytes into a buffer, where nothing is packed. Whoever
// empties the buffer packs them into another chunk. A chunk of buffers has as many as fit.
inline constexpr size_t kBufferBytes = 16 << 10;
inline constexpr size_t kBuffersOfChunk = kChunkBytes / kBufferBytes;
// The header's table has the place of each buffer, with its state in the lowest bits.
inline constexpr size_t kBufferTable = 4096;
inline constexpr size_t kMostBuffers = (kHeaderBytes - kBufferTable) / sizeof(uint32_t);
inline constexpr unsigned kBufferStateBits = 2;
enum class BufferState : uint32_t { kFree = 0, kWritten = 1, kFull = 2, kPacked = 3 };

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
// What is no event in a buffer: the low three bits of its word are those of kOther, three more say
// what, and the rest is its number.
enum class Context : uint8_t {
  kTime = 0,     // ticks of the next events
  kSize = 1,     // of the next event: log2 of its alignment in six bits, then its size
  kAddress = 2,  // of the next event: the bits of its address above 47
  kStack = 3,    // as Other::kStack
  kWritten = 4,  // as Other::kWritten
};
inline constexpr unsigned kContextBits = 6;
inline constexpr unsigned kAlignmentBits = 6;
// An event's word: kind, size, address in units of 8 bytes.
inline constexpr unsigned kWordSizeShift = 4, kWordSizeBits = 16, kWordAddressShift = 20;
inline constexpr unsigned kWordAddressBits = 47;
inline constexpr size_t kMaxEventWords = 6;
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
  uint32_t has_written;        // 1: with Other::kWritten
  uint32_t buffers;            // rows of the table in use
  uint32_t packer;             // not 0: another process empties full buffers
  uint32_t unused;
  uint64_t pid_namespace;  // inode of the PID namespace in which the process is `pid`; 0: unknown
  uint64_t process_start;  // in clock ticks since boot, which exec does not change; 0: unknown
};
static_assert(sizeof(Header) <= kBufferTable);

enum class Form : uint32_t { kPacked = 0, kBuffers = 1 };

inline uint8_t* ChunkAt(Header& header, uint64_t number) {
  return reinterpret_cast<uint8_t*>(&header) + kHeaderBytes + number * kChunkBytes;
}

// Of a chunk, and of each buffer.
struct ChunkHeader {
  uint32_t thread;
  Form form;
  uint64_t ticks;  // time of the first event's predecessor
};

}  // namespace granary::record
