// Makes the calls of a sequence in the library, and counts what comes of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulate/running.h"
#include "simulate/sequence.h"

namespace granary::simulate {

struct Counts {
  uint64_t allocations = 0, frees = 0;
  uint64_t overflows = 0;            // frees that found the cache full
  uint64_t refused = 0;              // allocations that returned null
  uint64_t live = 0, live_peak = 0;  // requested bytes
  uint64_t remote = 0, placed = 0;   // requested bytes on another node than the thread's, and all
};

// Resident bytes of the heap and its metadata at a moment.
struct Point {
  uint64_t nanos;
  uint64_t resident, live;
};

class Player {
 public:
  Player();

  void Play(Sequence& sequence);

  const Counts& counts() const { return counts_; }
  // At most kPoints, at equal distances.
  const std::vector<Point>& curve() const { return curve_; }
  // Resident bytes of the heap and its metadata.
  uint64_t peak() const { return peak_; }
  uint64_t end() const { return end_; }
  double mean_resident() const;
  // Allocations that no cache served.
  static uint64_t misses();

 private:
  static constexpr size_t kPoints = 256;
  // A peak of the heap is measured whole, with metadata, when it is so much above the last one.
  static constexpr uint64_t kPeakParts = 64;
  static constexpr uint64_t kFirstStepNanos = 100'000;

  struct Slot {
    void* object;
    uint64_t size;
  };

  // How many words ahead the line of a slot is loaded: a big heap's do not stay in the CPU's
  // caches.
  static constexpr size_t kAhead = 16;
  static constexpr size_t kFirstSlots = 1 << 16;
  static constexpr uint32_t kMostThreads = 1 << 24;

  // What a kDetail says about the next allocation.
  struct Detail {
    uint64_t size = 0;  // the upper bits
    unsigned log2_alignment = 0;
    uint16_t written = 0;
  };

  // False at the end of the sequence.
  bool Run(std::span<const uint64_t> words);
  void Context(Word word);
  void Switch(uint32_t thread);
  void GrowSlots();
  void Begin(Word word);
  void End(Word word);
  void* Allocate(Kind kind, const Slot& slot, size_t size, size_t alignment);
  void* Reallocate(void* p, size_t size);
  void Free(void* p);
  void Began(Slot& slot, void* p, size_t size);
  void Ended(const Slot& slot);
  uint64_t WrittenOf(size_t size) const;
  void Observe();
  uint64_t Measure();

  Scheduler scheduler_;
  Slot* slots_ = nullptr;
  size_t used_ = 0, room_ = 0;  // slots
  Detail detail_;
  uint64_t now_;
  Counts counts_;
  std::vector<Point> curve_;
  uint64_t step_ = kFirstStepNanos, next_;
  uint64_t start_;
  uint64_t peak_ = 0, end_ = 0, measure_at_ = 0;
  double mapped_time_ = 0;
  uint64_t mapped_ = 0, mapped_at_;
};

}  // namespace granary::simulate
