#include "simulate/player.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/prefetch.h"
#include "heap/fast.h"
#include "simulate/machine.h"
#include "upkeep/upkeep.h"

namespace granary::simulate {
namespace {

constexpr uint64_t kTickNanos = 100;
constexpr double kParts = 65534;  // of an object that Detail::written counts

}  // namespace

Player::Player()
    : scheduler_(machine.hardware.cpus),
      now_(machine.nanos()),
      next_(machine.nanos()),
      start_(machine.nanos()),
      mapped_at_(machine.nanos()) {}

void Player::Play(Sequence& sequence) {
  Switch(0);
  while (Run(sequence.Next())) {
  }
  end_ = Measure();
}

bool Player::Run(std::span<const uint64_t> words) {
  const size_t ahead = words.size() - std::min(words.size(), kAhead);
  for (size_t i = 0; i < words.size(); ++i) {
    if (i < ahead) PrefetchForWrite(&slots_[Word(words[i + kAhead]).slot()]);
    const Word word(words[i]);
    if (word.kind() == Kind::kEnd) return false;
    if (word.kind() > Kind::kReallocate) {
      Context(word);
      continue;
    }
    machine.LetBackgroundRun();
    word.kind() == Kind::kFree ? End(word) : Begin(word);
    if (!machine.background.started() && upkeep.BackgroundRuns()) machine.background.Await();
    if (machine.pages.resident_bytes() >= measure_at_ || now_ >= next_) Observe();
  }
  return true;
}

void Player::Context(Word word) {
  switch (word.kind()) {
    case Kind::kTime:
      now_ += word.ticks() * kTickNanos;
      return machine.AdvanceTo(now_);
    case Kind::kSwitch:
      return Switch(word.slot());
    default:
      detail_ = {word.upper(), word.log2_alignment(), word.written()};
  }
}

void Player::Switch(uint32_t thread) {
  if (thread >= kMostThreads) FailCut();
  const unsigned cpu = scheduler_.Run(thread);
  machine.node = cpu * machine.hardware.nodes / machine.hardware.cpus;
}

void Player::GrowSlots() {
  const size_t room = room_ == 0 ? kFirstSlots : 2 * room_;
  void* const p = room_ == 0
                      ? mmap(nullptr, room * sizeof(Slot), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                      : mremap(slots_, room_ * sizeof(Slot), room * sizeof(Slot), MREMAP_MAYMOVE);
  if (p == MAP_FAILED) Fail("the table of objects was refused; free some memory");
  slots_ = static_cast<Slot*>(p);
  room_ = room;
}

void Player::End(Word word) {
  if (word.slot() >= used_) FailCut();
  Slot& slot = slots_[word.slot()];
  Ended(slot);
  Free(slot.object);
  slot = {};
}

void Player::Begin(Word word) {
  if (word.slot() >= used_) {  // slots are used in their order
    if (word.slot() > used_ || word.kind() == Kind::kReallocate) FailCut();
    if (++used_ > room_) GrowSlots();
  }
  Slot& slot = slots_[word.slot()];
  if (word.kind() == Kind::kReallocate) Ended(slot);
  const size_t size = detail_.size | word.size();
  Began(slot, Allocate(word.kind(), slot, size, size_t{1} << detail_.log2_alignment), size);
  detail_ = {};
}

// The calls are those of entry/libc.cc.
void* Player::Allocate(Kind kind, const Slot& slot, size_t size, size_t alignment) {
  ++counts_.allocations;
  if (kind == Kind::kReallocate) return Reallocate(slot.object, size);
  if (kind == Kind::kZeroed) return heap::AllocateZeroed(size);
  if (alignment > alignof(std::max_align_t)) return heap::AllocateAligned(size, alignment);
  void* const p = heap::TryAllocate(size);
  return p != nullptr ? p : heap::Allocate(size);
}

// How many of an object's first bytes a program writes.
uint64_t Player::WrittenOf(size_t size) const {
  if (detail_.written == 0) return size;
  return static_cast<uint64_t>(static_cast<double>(size) * (detail_.written - 1) / kParts);
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
void Player::Began(Slot& slot, void* p, size_t size) {
  slot = {p, size};
  if (p == nullptr) {
    counts_.refused += size > 0;
    return;
  }
  machine.pages.Touch(p, WrittenOf(size), machine.node);
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
