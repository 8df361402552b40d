// A sequence: the calls of all threads of a trace as one list of words, which granary writes into a
// pipe (tool/internal/trace/sequence.go) while the simulation reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace granary::simulate {

inline constexpr char kSequenceMagic[8] = {'g', 'r', 'a', 'n', 's', 'e', 'q', 'u'};
inline constexpr uint64_t kSequenceVersion = 2;

enum class Kind : uint8_t {
  kAllocate = 0,    // an object of `size` into the slot
  kZeroed = 1,      // the same, with calloc
  kFree = 2,        // the slot's object
  kReallocate = 3,  // the slot's object to `size`
  kSwitch = 4,      // the next calls are of the thread whose number is in `slot`
  kTime = 5,        // so much time passes, in units of 100 ns; `slot` has the upper bits
  kDetail = 6,      // of the next allocation: `slot` has the upper bits of its size, see below
  kEnd = 7,
};

class Word {
 public:
  explicit Word(uint64_t bits) : bits_(bits) {}
  Kind kind() const { return static_cast<Kind>(bits_ & 7); }
  uint64_t size() const { return (bits_ >> 3) & (kSizes - 1); }
  uint32_t slot() const { return static_cast<uint32_t>(bits_ >> (3 + kSizeBits)); }

  // kTime, kDetail: with the upper bits
  uint64_t upper() const { return uint64_t{slot()} << kSizeBits; }
  uint64_t ticks() const { return size() | upper(); }
  // kDetail
  unsigned log2_alignment() const { return static_cast<unsigned>(size() >> 16); }
  // the written part of the object in units of 1/65534, plus one; 0: unknown
  uint16_t written() const { return static_cast<uint16_t>(size()); }

 private:
  static constexpr unsigned kSizeBits = 29;
  static constexpr uint64_t kSizes = uint64_t{1} << kSizeBits;
  uint64_t bits_;
};

class Sequence {
 public:
  // Opens a file; "-": standard input. Ends the program with a message if it is no sequence.
  explicit Sequence(const char* path);

  // The next words; ends the program with a message if there are none.
  std::span<const uint64_t> Next();

 private:
  static constexpr size_t kBytes = 256 << 10;

  int file_;
  size_t count_ = 0;  // of the last words
  size_t rest_ = 0;   // bytes behind them, of a word whose end is not read yet
  alignas(64) uint64_t words_[kBytes / sizeof(uint64_t)];
};

// The file ends before its end, or is damaged.
[[noreturn]] void FailCut();

}  // namespace granary::simulate
