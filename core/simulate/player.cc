#include "simulate/player.h"

#include <sys/mman.h>

#include <algorithm>

#include "heap/fast.h"
#include "simulate/machine.h"
#include "upkeep/upkeep.h"

namespace granary::simulate {
namespace {

constexpr uint64_t kTickNanos = 100;

}  // namespace

Player::Player(size_t slots)
    : scheduler_(machine.hardware.cpus),
      next_(machine.nanos()),
      start_(machine.nanos()),
      mapped_at_(machine.nanos()) {
  void* const p = mmap(nullptr, (slots + 1) * sizeof(Slot), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) Fail("the table of objects was refused; free some memory");
  slots_ = static_cast<Slot*>(p);
}

void Player::Play(const Sequence& sequence) {
  uint64_t now = machine.nanos();
  Switch(0);
  for (const replay::Operation& op : sequence) {
    now += op.delay * kTickNanos;
    machine.AdvanceTo(now);
    if (op.kind == replay::Kind::kSwitch) {
      Switch(op.slot);
      continue;
    }
    Apply(op);
    if (!machine.background.started() && upkeep.BackgroundRuns()) machine.background.Await();
    if (machine.pages.resident_bytes() >= measure_at_ || now >= next_) Observe();
  }
  end_ = Measure();
}

void Player::Switch(uint32_t thread) {
  const unsigned cpu = scheduler_.Run(thread);
  machine.node = cpu * machine.hardware.nodes / machine.hardware.cpus;
}

void Player::Apply(const replay::Operation& op) {
  Slot& slot = slots_[op.slot];
  if (op.kind == replay::Kind::kFree) {
    Ended(slot);
    Free(slot.object);
    slot = {};
    return;
  }
  if (op.kind == replay::Kind::kReallocate) Ended(slot);
  Began(slot, Allocate(op), op.size, WrittenOf(op));
}

// The calls are those of entry/libc.cc.
void* Player::Allocate(const replay::Operation& op) {
  ++counts_.allocations;
  const size_t alignment = size_t{1} << op.log2_alignment;
  if (op.kind == replay::Kind::kReallocate) return Reallocate(slots_[op.slot].object, op.size);
  if (op.kind == replay::Kind::kZeroed) return heap::AllocateZeroed(op.size);
  if (alignment > alignof(std::max_align_t)) return heap::AllocateAligned(op.size, alignment);
  void* const p = heap::TryAllocate(op.size);
  return p != nullptr ? p : heap::Allocate(op.size);
}

void* Player::Reallocate(void* p, size_t size) {
  if (p == nullptr) return heap::Allocate(size);
  if (size > 0 || options.zero_realloc == 1) return heap::Reallocate(p, size);
  Free(p);
  return nullptr;
}

void Player::Free(void* p) {
  ++counts_.frees;
  if (p == nullptr || heap::TryFree(p)) return;
  if (page_map.ClassAt(p) != kNoClass) ++counts_.overflows;
  heap::Free(p);
}

// As the replay does, the program writes into the first pages of a new object.
void Player::Began(Slot& slot, void* p, size_t size, size_t written) {
  slot = {p, size};
  if (p == nullptr) {
    counts_.refused += size > 0;
    return;
  }
  machine.pages.Touch(p, written, machine.node);
  counts_.live += size;
  counts_.live_peak = std::max(counts_.live_peak, counts_.live);
  counts_.placed += size;
  if (machine.pages.NodeOf(p) != machine.node) counts_.remote += size;
}

void Player::Ended(const Slot& slot) {
  if (slot.object != nullptr) counts_.live -= slot.size;
}

// The metadata that is resident is read from the kernel, so not often.
uint64_t Player::Measure() {
  const uint64_t now = machine.nanos();
  mapped_time_ += static_cast<double>(mapped_) * static_cast<double>(now - mapped_at_);
  mapped_ = machine.MappedResident();
  mapped_at_ = now;
  const uint64_t heap = machine.pages.resident_bytes();
  peak_ = std::max(peak_, heap + mapped_);
  return heap + mapped_;
}

void Player::Observe() {
  const uint64_t now = machine.nanos(), resident = Measure();
  const uint64_t heap = resident - mapped_;
  if (heap >= measure_at_) measure_at_ = heap + heap / kPeakParts + Pages::kPage;
  if (now < next_) return;
  curve_.push_back({now - start_, resident, counts_.live});
  if (curve_.size() == kPoints) {  // every other one stays
    for (size_t i = 0; i < kPoints / 2; ++i) curve_[i] = curve_[2 * i];
    curve_.resize(kPoints / 2);
    step_ *= 2;
  }
  next_ = now + step_;
}

double Player::mean_resident() const {
  const auto nanos = static_cast<double>(machine.nanos() - start_);
  if (nanos == 0) return static_cast<double>(end_);
  return (machine.resident_time() + mapped_time_) / nanos;
}

uint64_t Player::misses() {
  uint64_t count = 0;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    count += layers.front().Allocations(c);
    layers.front().ForEachCache([&](Cache<Linux>& cache) { count -= cache.Allocations(c); });
  }
  return count;
}

}  // namespace granary::simulate
