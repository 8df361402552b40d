// The pool of sampled guards: pages between pages without access. A sampled object is at the end or
// at the start of its page, in turn. When it is freed, its page loses access, and is reused after
// all others. Thread-safe without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/units.h"
#include "os/os.h"
#include "pages/metadata.h"

namespace granary::profiler {

// A stack as it was when an object was allocated or freed.
struct GuardStack {
  static constexpr size_t kMost = 30;
  uint32_t thread = 0;
  uint32_t depth = 0;
  uintptr_t frames[kMost] = {};

  void Set(uint32_t of, const uintptr_t* from, size_t count) {
    thread = of;
    depth = static_cast<uint32_t>(count < kMost ? count : kMost);
    for (size_t i = 0; i < depth; ++i) frames[i] = from[i];
  }
};

struct GuardedObject {
  enum class State : uint8_t { kNever, kBusy, kLive, kFreed };
  std::atomic<State> state{State::kNever};
  char* p = nullptr;
  size_t size = 0;
  GuardStack allocated, freed;
};

template <Os System>
class GuardPool {
 public:
  static constexpr size_t kSlots = 128;
  static constexpr size_t kStep = 16;  // alignment of every object
  static constexpr unsigned char kPattern = 0xd6;

  constexpr GuardPool() = default;
  // False if the system refuses. One caller at a time.
  bool Init(Metadata<System>& metadata, size_t page) noexcept {
    if (base_.load(std::memory_order_relaxed) != nullptr) return true;
    const size_t bytes = (2 * kSlots + 1) * page;
    objects_ = static_cast<GuardedObject*>(metadata.Allocate(kSlots * sizeof(GuardedObject)));
    char* const base = static_cast<char*>(System::Reserve(bytes, page, nullptr));
    if (objects_ == nullptr || base == nullptr) return false;
    page_ = page;
    base_.store(base, std::memory_order_release);
    return true;
  }

  bool Holds(const void* p) const noexcept {
    const char* const base = base_.load(std::memory_order_acquire);
    return base != nullptr &&
           static_cast<size_t>(static_cast<const char*>(p) - base) < (2 * kSlots + 1) * page_;
  }
  size_t MostBytes() const noexcept { return page_; }

  // A live object of `size` bytes with this stack; nullptr if the next pages are all in use.
  void* Allocate(size_t size, uint32_t thread, const uintptr_t* frames, size_t depth) noexcept {
    if (size == 0 || size > page_) return nullptr;
    const size_t turn = next_.fetch_add(1, std::memory_order_relaxed);
    const size_t slot = turn % kSlots;
    GuardedObject& o = objects_[slot];
    auto state = o.state.load(std::memory_order_relaxed);
    if (state == State::kLive || state == State::kBusy) return nullptr;
    if (!o.state.compare_exchange_strong(state, State::kBusy, std::memory_order_acquire)) {
      return nullptr;
    }
    char* const page = PageOf(slot);
    if (!System::Commit(page, page_)) {
      o.state.store(state, std::memory_order_release);
      return nullptr;
    }
    o.p = turn / kSlots % 2 == 0 ? page + page_ - RoundUp(size, kStep) : page;
    o.size = size;
    o.allocated.Set(thread, frames, depth);
    o.freed.depth = 0;
    __builtin_memset(o.p + size, kPattern, MarginOf(o));
    o.state.store(State::kLive, std::memory_order_release);
    return o.p;
  }

  // The object that an access at p was meant for, as far as that can be told: the one in the page,
  // or the closer one of a guard's neighbours. nullptr if there never was one.
  const GuardedObject* NearestTo(const void* p) const noexcept {
    const size_t index = IndexOf(p);
    if (index % 2 == 1) return Known(index / 2);
    const GuardedObject* const before = index == 0 ? nullptr : Known(index / 2 - 1);
    const GuardedObject* const after = index / 2 == kSlots ? nullptr : Known(index / 2);
    if (before == nullptr || after == nullptr) return before != nullptr ? before : after;
    const auto past = AddressOf(p) - AddressOf(before->p + before->size);
    return past <= AddressOf(after->p) - AddressOf(p) ? before : after;
  }

  // The live object that begins at p; nullptr if there is none.
  GuardedObject* LiveAt(const void* p) const noexcept {
    const size_t index = IndexOf(p);
    GuardedObject* const o = index % 2 == 1 ? &objects_[index / 2] : nullptr;
    if (o == nullptr || o->state.load(std::memory_order_acquire) != State::kLive) return nullptr;
    return o->p == p ? o : nullptr;
  }

  // Whether the bytes between the object's end and the next multiple of kStep are unchanged.
  static bool MarginIsWhole(const GuardedObject& o) noexcept {
    for (size_t i = 0; i < MarginOf(o); ++i) {
      if (static_cast<unsigned char>(o.p[o.size + i]) != kPattern) return false;
    }
    return true;
  }

  // Frees a live object. False if another thread was faster.
  bool Free(GuardedObject& o, uint32_t thread, const uintptr_t* frames, size_t depth) noexcept {
    auto live = State::kLive;
    if (!o.state.compare_exchange_strong(live, State::kBusy, std::memory_order_acquire)) {
      return false;
    }
    char* const page = reinterpret_cast<char*>(RoundDown(AddressOf(o.p), page_));
    o.freed.Set(thread, frames, depth);
    System::Purge(page, page_);
    System::Decommit(page, page_);
    o.state.store(State::kFreed, std::memory_order_release);
    return true;
  }

 private:
  using State = GuardedObject::State;

  char* PageOf(size_t slot) const noexcept {
    return base_.load(std::memory_order_relaxed) + (2 * slot + 1) * page_;
  }
  size_t IndexOf(const void* p) const noexcept {
    return static_cast<size_t>(static_cast<const char*>(p) - base_.load()) / page_;
  }
  const GuardedObject* Known(size_t slot) const noexcept {
    const GuardedObject& o = objects_[slot];
    const State state = o.state.load(std::memory_order_acquire);
    return state == State::kLive || state == State::kFreed ? &o : nullptr;
  }
  static size_t MarginOf(const GuardedObject& o) noexcept {
    return RoundUp(o.size, kStep) - o.size;
  }

  std::atomic<char*> base_{nullptr};
  GuardedObject* objects_ = nullptr;
  size_t page_ = 0;
  std::atomic<size_t> next_{0};
};

}  // namespace granary::profiler
