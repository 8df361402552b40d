#pragma once

#include "base/logarithm.h"
#include "samples/probes.h"
#include "samples/recorder.h"

namespace granary::samples {

constexpr uint32_t kNoStack = ~uint32_t{0};

// Marks a row as changing as long as this object exists: the row's sequence number is odd.
class Changing {
 public:
  explicit Changing(uint32_t& sequence) : sequence_(sequence) { Step(); }
  ~Changing() { Step(); }
  Changing(const Changing&) = delete;
  Changing& operator=(const Changing&) = delete;

 private:
  void Step() { __atomic_fetch_add(&sequence_, 1, __ATOMIC_SEQ_CST); }
  uint32_t& sequence_;
};

inline void Add(Amount& to, const Amount& more) {
  to.samples += more.samples;
  to.objects += more.objects;
  to.bytes += more.bytes;
  to.requested += more.requested;
}

// The estimate that one sampled object of `bytes` contributes.
inline Amount AmountOf(uint64_t objects, uint64_t bytes, uint64_t requested) {
  const double scale = static_cast<double>(objects) / kObjectScale;
  return {1, objects, static_cast<uint64_t>(scale * static_cast<double>(bytes) + 0.5),
          static_cast<uint64_t>(scale * static_cast<double>(requested) + 0.5)};
}
inline Amount AmountOf(const Sample& s) { return AmountOf(s.objects, s.bytes, s.requested); }

// The probability with which an object of `bytes` becomes a sample.
inline double ChanceOf(double bytes, uint64_t rate) {
  return rate <= 1 ? 1 : OneMinusExp(bytes / static_cast<double>(rate));
}

inline uint64_t ObjectsFor(uint64_t bytes, uint64_t rate) {
  return static_cast<uint64_t>(kObjectScale / ChanceOf(static_cast<double>(bytes), rate) + 0.5);
}

// The histogram row for an object with this lifetime.
inline size_t LifetimeRow(uint64_t nanos) {
  const uint64_t millis = nanos / 1000000;
  const auto row = static_cast<size_t>(std::bit_width(millis));
  return row < kLifetimes ? row : kLifetimes - 1;
}

// The histogram row for a request of this size.
inline size_t SizeRow(uint64_t requested) {
  const auto row = static_cast<size_t>(std::bit_width(requested - (requested != 0)));
  return row < kSizes ? row : kSizes - 1;
}

// The row of a thread; the last row when all others are taken.
inline ThreadRow& RowOf(Head& head, uint32_t thread) {
  for (size_t i = 0; i < kMostThreads; ++i) {
    ThreadRow& row = head.threads[(thread + i) % kMostThreads];
    if (row.thread == thread) return row;
    if (row.thread != 0) continue;
    row.thread = thread;
    return row;
  }
  return head.threads[kMostThreads];
}

inline uint64_t HashOf(const uintptr_t* frames, size_t depth) {
  uint64_t hash = depth;
  for (size_t i = 0; i < depth; ++i) {
    hash = (hash ^ frames[i]) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

template <Os System>
bool Recorder<System>::Begin(const Beginning& beginning) noexcept {
  Locked hold(mutex_);
  if (table_ == nullptr) {
    table_ = static_cast<Head*>(System::Map(Place::kBytes, 64 * kKiB, nullptr));
    if (table_ == nullptr) return false;
    System::AllowHuge(table_, Place::kBytes, false);
  }
  index_.Begin(At<std::atomic<uint64_t>>(Place::kIndexAt));
  table_->rate = beginning.rate;
  table_->started_nanos = beginning.nanos;
  table_->started_unix_nanos = beginning.unix_nanos;
  __atomic_store_n(&table_->generation, ++generation_, __ATOMIC_RELEASE);
  collects_.store(true, std::memory_order_release);
  return true;
}

template <Os System>
void Recorder<System>::SetActive(bool active, uint64_t rate) noexcept {
  Locked hold(mutex_);
  if (!Collects()) return;
  table_->active = active;
  if (active) table_->rate = rate;
}

template <Os System>
void Recorder<System>::Discard(PageMap& map) noexcept {
  Locked hold(mutex_);
  if (!Collects()) return;
  for (size_t i = 0; i < table_->samples; ++i) {
    const Sample& s = samples()[i];
    if (s.address == 0 || s.size_class == kNoClass) continue;
    map.RemoveSample(reinterpret_cast<const void*>(s.address), s.size_class);
  }
  collects_.store(false, std::memory_order_release);
  index_.End();
  reentered_.store(0, std::memory_order_relaxed);
  __atomic_store_n(&table_->generation, 0, __ATOMIC_SEQ_CST);
  if (!System::Purge(table_, Place::kBytes)) __builtin_memset(table_, 0, Place::kBytes);
}

template <Os System>
uint32_t Recorder<System>::NewStack(uint64_t hash, const uintptr_t* frames, size_t depth,
                                    uint32_t* bucket) noexcept {
  if (table_->stacks == kMostStacks || table_->frames + depth > kMostFrames) return kNoStack;
  const uint32_t row = table_->stacks;
  Stack& stack = stacks()[row];
  Changing change(stack.sequence);
  stack.hash = hash;
  stack.first_frame = table_->frames;
  stack.depth = static_cast<uint32_t>(depth);
  stack.next = *bucket;
  for (size_t i = 0; i < depth; ++i) this->frames()[table_->frames + i] = frames[i];
  table_->frames += static_cast<uint32_t>(depth);
  __atomic_store_n(&table_->stacks, row + 1, __ATOMIC_RELEASE);
  *bucket = row + 1;
  return row;
}

template <Os System>
uint32_t Recorder<System>::StackOf(const uintptr_t* frames, size_t depth) noexcept {
  const uint64_t hash = HashOf(frames, depth);
  uint32_t* const bucket = At<uint32_t>(Place::kBucketsAt) + hash % kBuckets;
  for (uint32_t at = *bucket; at != 0; at = stacks()[at - 1].next) {
    const Stack& stack = stacks()[at - 1];
    if (stack.hash != hash || stack.depth != depth) continue;
    if (__builtin_memcmp(this->frames() + stack.first_frame, frames, depth * sizeof *frames) == 0) {
      return at - 1;
    }
  }
  return NewStack(hash, frames, depth, bucket);
}

template <Os System>
Sample* Recorder<System>::NewSample() noexcept {
  if (index_.Full()) return nullptr;
  if (const uint32_t free = table_->free_sample; free != 0) {
    Sample& s = samples()[free - 1];
    table_->free_sample = s.stack;
    return &s;
  }
  if (table_->samples == kMostSamples) return nullptr;
  Sample* const s = samples() + table_->samples;
  __atomic_store_n(&table_->samples, table_->samples + 1, __ATOMIC_RELEASE);
  return s;
}

template <Os System>
bool Recorder<System>::Record(PageMap& map, const Taken& taken, const uintptr_t* frames,
                              size_t depth) noexcept {
  Locked hold(mutex_);
  if (!Collects() || table_->active == 0) return false;
  ++table_->taken;
  table_->ends.cut += taken.ends.cut;
  table_->ends.early += taken.ends.early;
  table_->ends.guessed += taken.ends.guessed;
  table_->lost.reentered = reentered_.load(std::memory_order_relaxed);
  const uint64_t objects = ObjectsFor(taken.bytes, table_->rate);
  table_->sizes[SizeRow(taken.requested)] += objects;
  Add(RowOf(*table_, taken.thread).allocated, AmountOf(objects, taken.bytes, taken.requested));
  const uint32_t row = StackOf(frames, depth);
  if (row == kNoStack) {
    ++table_->lost.stacks;
    return false;
  }
  Sample* const sample = NewSample();
  if (sample == nullptr) {
    ++table_->lost.samples;
    return false;
  }
  {
    Changing change(sample->sequence);
    sample->address = AddressOf(taken.p);
    sample->stack = row;
    sample->bytes = taken.bytes;
    sample->requested = taken.requested;
    sample->objects = objects;
    sample->nanos = taken.nanos;
    sample->thread = taken.thread;
    sample->size_class = static_cast<uint16_t>(taken.c);
    sample->state = 0;
  }
  const Amount amount = AmountOf(*sample);
  Stack& stack = stacks()[row];
  {
    Changing change(stack.sequence);
    if (stack.allocated.samples == 0) stack.first_nanos = taken.nanos;
    stack.last_nanos = taken.nanos;
    Add(stack.allocated, amount);
    const uint64_t in_use = stack.allocated.bytes - stack.freed.bytes;
    if (in_use > stack.peak_bytes) {
      stack.peak_bytes = in_use;
      stack.peak_nanos = taken.nanos;
    }
  }
  ProbeAlloc(AddressOf(taken.p), taken.requested, amount.bytes);
  Add(table_->allocated, amount);
  ++table_->live_samples;
  index_.Insert(AddressOf(taken.p), static_cast<uint32_t>(sample - samples()));
  if (taken.c != kNoClass) map.AddSample(taken.p, taken.c);
  return true;
}

template <Os System>
void Recorder<System>::Remove(PageMap& map, Sample& sample, uint64_t nanos,
                              uint32_t thread) noexcept {
  const Amount amount = AmountOf(sample);
  const uint64_t lived = nanos > sample.nanos ? nanos - sample.nanos : 0;
  Stack& stack = stacks()[sample.stack];
  {
    Changing change(stack.sequence);
    Add(stack.freed, amount);
    if (lived < kTemporaryNanos && thread == sample.thread) Add(stack.temporary, amount);
    stack.lifetimes[LifetimeRow(lived)] += amount.objects;
  }
  ProbeFree(sample.address, amount.bytes);
  Add(table_->freed, amount);
  Add(RowOf(*table_, thread).freed, amount);
  --table_->live_samples;
  index_.Remove(sample.address);
  if (sample.size_class != kNoClass) {
    map.RemoveSample(reinterpret_cast<const void*>(sample.address), sample.size_class);
  }
  Changing change(sample.sequence);
  sample.address = 0;
  sample.state = 0;
  sample.stack = table_->free_sample;
  table_->free_sample = static_cast<uint32_t>(&sample - samples()) + 1;
}

template <Os System>
size_t Recorder<System>::Freed(PageMap& map, const void* p, uint64_t nanos,
                               uint32_t thread) noexcept {
  Locked hold(mutex_);
  const uint32_t row = index_.Find(AddressOf(p));
  if (row == Index::kNone) return 0;
  const size_t bytes = samples()[row].bytes;
  Remove(map, samples()[row], nanos, thread);
  return bytes;
}

// The estimate of requested bytes changes with it.
template <Os System>
void Recorder<System>::Resized(const void* p, size_t requested) noexcept {
  Locked hold(mutex_);
  const uint32_t row = index_.Find(AddressOf(p));
  if (row == Index::kNone) return;
  Sample& sample = samples()[row];
  Stack& stack = stacks()[sample.stack];
  Changing change_sample(sample.sequence);
  Changing change_stack(stack.sequence);
  const uint64_t before = AmountOf(sample).requested;
  sample.requested = requested;
  const uint64_t more = AmountOf(sample).requested - before;  // modulo 2^64
  stack.allocated.requested += more;
  table_->allocated.requested += more;
}

template <Os System>
void Recorder<System>::Defer(const void* p) noexcept {
  const uint32_t row = index_.Find(AddressOf(p));
  if (row == Index::kNone) return;
  __atomic_store_n(&samples()[row].state, uint16_t{1}, __ATOMIC_RELAXED);
  deferred_.store(true, std::memory_order_release);
}

template <Os System>
void* Recorder<System>::TakeDeferred() noexcept {
  Locked hold(mutex_);
  if (!Collects()) return nullptr;
  deferred_.store(false, std::memory_order_relaxed);
  for (size_t i = 0; i < table_->samples; ++i) {
    Sample& s = samples()[i];
    if (__atomic_load_n(&s.state, __ATOMIC_RELAXED) == 0 || s.address == 0) continue;
    __atomic_store_n(&s.state, uint16_t{0}, __ATOMIC_RELAXED);
    deferred_.store(true, std::memory_order_relaxed);  // more objects may be deferred
    return reinterpret_cast<void*>(s.address);
  }
  return nullptr;
}

template <Os System>
void Recorder<System>::CountLate(uint64_t samples, uint64_t bytes) noexcept {
  Locked hold(mutex_);
  if (!Collects()) return;
  table_->lost.late += samples;
  table_->lost.late_bytes += bytes;
}

}  // namespace granary::samples
