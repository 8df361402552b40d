// A plan: a trace as `granary replay` prepares it for the program replay. Each thread has a list of
// operations. Each slot holds one object at a time; the operations on a slot, of all threads, take
// turns, so that an object is freed after it was allocated whatever the threads' speeds.
// tool/internal/trace/replay_plan.go writes it.
#pragma once

#include <cstdint>

namespace replay {

inline constexpr char kMagic[8] = {'g', 'r', 'a', 'n', 'p', 'l', 'a', 'n'};
inline constexpr uint32_t kVersion = 1;

enum class Kind : uint8_t {
  kAllocate = 0,
  kZeroed = 1,
  kFree = 2,
  kReallocate = 3,
  kStart = 4,  // starts the thread whose number is in `slot`
};

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t threads;
  uint64_t slots;
};

// One for each thread, after the header. The first thread is main's.
struct Thread {
  uint64_t offset;  // of its operations in the file
  uint64_t operations;
  uint64_t begin;  // recorded time of the first operation, in 100 ns
};

struct Operation {
  uint64_t size;
  uint32_t slot;
  uint32_t turn;   // how many operations on the slot come before
  uint32_t delay;  // recorded time since the previous operation of the list, in 100 ns
  Kind kind;
  uint8_t log2_alignment;
  uint16_t written;  // the written part of the object in units of 1/65534, plus one; 0: unknown
};
// How many of the object's first bytes a replay writes.
inline uint64_t WrittenOf(const Operation& op) {
  if (op.written == 0) return op.size;
  return static_cast<uint64_t>(static_cast<double>(op.size) * (op.written - 1) / 65534);
}
static_assert(sizeof(Header) == 24 && sizeof(Thread) == 24 && sizeof(Operation) == 24);

}  // namespace replay
