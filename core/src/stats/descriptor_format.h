// What a reader outside the process must know about this build: constants, the address of each
// figure, the counters, the options, the size classes. The descriptor is one block of bytes without
// relocations, built at compile time from rows with names. docs/reference/descriptor.md
// describes it. A reader finds it through the ELF note of inspection/note.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace granary {

// Changes when a reader for the old layout could misread the new one. New rows do not change it,
// because a reader finds rows by name and reads the size of a row from the descriptor.
inline constexpr uint32_t kDescriptorVersion = 2;

// The origin of an offset; inspection/note.h lists the distances to these origins in this order.
enum class Base : uint32_t {
  kLayers,
  kPageMap,
  kAnchor,
  kOptions,
  kThreads,
  kSystem,
  kUpkeep,
  kReports
};

// Names and other texts are offsets from the start of the descriptor to a string that ends with a
// zero byte.
using TextAt = uint32_t;

struct ConstantRow {
  TextAt name;
  uint32_t width;  // of an offset, the bytes of the member, or of its elements; else zero
  int64_t value;
};

// A figure is the sum of `count` numbers of `width` bytes, `stride` bytes apart, times `scale`.
// Where `scale` is 0, the numbers are addresses or states.
struct CellRow {
  TextAt name;
  uint32_t base;
  uint64_t offset;
  uint32_t stride, count, width, scale;
};

inline constexpr uint32_t kNoCell = ~uint32_t{0};

struct MetricRow {
  TextAt name, kind, unit, layer, meaning;
  uint32_t cell;  // index into the cells; kNoCell for a figure that the reader computes
};

struct OptionRow {
  TextAt name, type, meaning;
  uint32_t at_run_time;
  uint64_t offset;  // from Base::kOptions
  uint32_t width, padding;
  int64_t default_value, lowest, highest;
};

// Zero for a size class without slabs. Floors and capacities are in words of a cache.
struct ClassRow {
  uint32_t size, slab_bytes, slab_objects;
  uint32_t short_floor, short_capacity, long_floor, long_capacity;
  uint32_t previous_size;
  // zero where malloc has no ready list for this size class
  uint32_t ready_list, ready_floor, ready_capacity;
};

struct TableAt {
  uint32_t offset, rows, row_bytes, padding;
};

struct DescriptorHead {
  char magic[8];
  uint32_t version;
  uint32_t bytes;  // bytes of the whole descriptor
  TextAt library;
  uint32_t tables;  // number of tables that follow
  TableAt constants, cells, metrics, options, classes;
};

template <size_t kConstants, size_t kCells, size_t kMetrics, size_t kOptionRows, size_t kClasses,
          size_t kText>
struct DescriptorOf {
  DescriptorHead head{};
  std::array<ConstantRow, kConstants> constants{};
  std::array<CellRow, kCells> cells{};
  std::array<MetricRow, kMetrics> metrics{};
  std::array<OptionRow, kOptionRows> options{};
  std::array<ClassRow, kClasses> classes{};
  char text[kText]{};

  constexpr const char* At(TextAt at) const {
    return text + (at - static_cast<uint32_t>(offsetof(DescriptorOf, text)));
  }
};

constexpr bool SameText(const char* a, const char* b) {
  while (*a != 0 && *a == *b) {
    ++a;
    ++b;
  }
  return *a == *b;
}

// Stores texts one after another, each text once.
class TextPool {
 public:
  constexpr TextPool(char* to, size_t capacity, size_t start)
      : to_(to), capacity_(capacity), start_(start) {}

  constexpr TextAt Put(const char* text) {
    for (size_t i = 0; i < texts_ && !Full(); ++i) {
      if (SameText(to_ + begins_[i], text)) return static_cast<TextAt>(start_ + begins_[i]);
    }
    const size_t at = used_;
    if (texts_ < kMostRemembered) begins_[texts_++] = at;
    do {
      if (used_ < capacity_) to_[used_] = *text;
      ++used_;
    } while (*text++ != 0);
    return static_cast<TextAt>(start_ + at);
  }

  constexpr bool Full() const { return used_ > capacity_; }
  constexpr size_t used() const { return used_; }

 private:
  static constexpr size_t kMostRemembered = 512;

  char* to_;
  size_t capacity_;
  size_t start_;
  size_t used_ = 0;
  size_t texts_ = 0;
  size_t begins_[kMostRemembered]{};
};

}  // namespace granary
