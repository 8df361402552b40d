#include "profiler/profiler.h"

#include "layers/class_figures.h"
#include "layers/layers.h"
#include "profiler/call_stack.h"
#include "profiler/profile_files.h"
#include "profiler/profile_hooks.h"
#include "profiler/sampled_guards.h"
#include "profiler/sampled_threads.h"
#include "upkeep/upkeep.h"

namespace granary::profiler {
namespace {

void CountLate(SizeClass c) {
  const uint64_t late = c == kNoClass ? 0 : layers.front().ResetLate(c);
  if (late == 0) return;
  const uint64_t objects = samples::ObjectsFor(kClassSize[c], layers.front().sampling().rate());
  layers.profile().CountLate(late, late * samples::AmountOf(objects, kClassSize[c], 0).bytes);
}

// Fills the exact part of the profile from the counters.
void FillHead() {
  samples::Head& head = *layers.profile().head();
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    const ClassFigures f = MeasureClass(c);
    head.allocations_before[c] = f.allocations;
    head.live_before[c] = f.live;
  }
  const PageStats pages = layers.pages().Stats();
  head.allocations_before[kNoClass] = pages.large_allocations;
  head.live_before[kNoClass] = pages.large_allocations - pages.large_frees;
  head.large_live_bytes = pages.large;
}

bool Begin() {
  if (!layers.profile().Begin({0, Linux::NowNanos(), Linux::NowUnixNanos()})) return false;
  FillHead();
  return true;
}

void PauseSampling() {
  if (layers.front().sampling().on()) layers.front().SetSampling(0, 0);
  layers.profile().SetActive(false, 0);
}

bool IsActive() {
  const samples::Head* const head = layers.profile().head();
  return head != nullptr && head->active != 0;
}

// Between profiles, sampling is for guards.
void SampleForGuards() {
  const uint64_t rate = sampled_guards::Rate();
  if (rate == layers.front().sampling().rate()) return;
  if (layers.front().sampling().on()) layers.front().SetSampling(0, 0);
  if (rate != 0) layers.front().SetSampling(rate, Linux::NowNanos());
}

// Frees the objects that a thread freed while it could not record the free.
void FreeDeferred() {
  while (layers.profile().AnyDeferred()) {
    void* const p = layers.profile().TakeDeferred();
    if (p != nullptr && Unsample(p)) layers.Free(p);
  }
}

}  // namespace

void Sample(void* p, SizeClass c, size_t bytes, size_t requested) noexcept {
  if (!layers.profile().Collects()) return;  // sampling is on for guards
  if (!layers.profile().MayRecord()) return layers.profile().LoseReentered();
  if (!sampled_threads::TakesSamples()) return;
  CallStack stack;
  CountLate(c);
  const samples::Taken taken{p,         c, bytes, requested, Linux::NowNanos(), Linux::ThreadId(),
                             stack.ends};
  const bool recorded =
      layers.profile().Record(page_map, taken, stack.frames + stack.first, stack.end - stack.first);
  FreeDeferred();
  if (recorded)
    profile_hooks::Sampled(p, requested, stack.frames + stack.first, stack.end - stack.first,
                           bytes);
  profile_files::AfterSample();
}

bool Unsample(void* p) noexcept {
  if (!layers.profile().Knows(p)) return true;
  if (!layers.profile().MayRecord()) return layers.profile().Defer(p), false;
  const size_t bytes = layers.profile().Freed(page_map, p, Linux::NowNanos(), Linux::ThreadId());
  if (bytes != 0) profile_hooks::Freed(p, bytes);
  return true;
}

void ResampleLarge(void* p, size_t size) noexcept {
  if (!Unsample(p)) return;
  if (layers.front().sampling().Chosen(size)) Sample(p, kNoClass, size, size);
}

Started Start(uint64_t rate, uint64_t seed) noexcept {
  const Upkeep::Exclusive alone(upkeep);
  const bool fresh = !layers.profile().Collects();
  if (fresh && !Begin()) return Started::kRefused;
  if (layers.front().sampling().rate() != rate) {
    if (layers.front().sampling().on()) layers.front().SetSampling(0, 0);
    layers.profile().SetActive(true, rate);
    layers.front().SetSampling(rate, seed != 0 ? seed : Linux::NowNanos());
  }
  return fresh ? Started::kFresh : Started::kAlready;
}

void Pause() noexcept {
  const Upkeep::Exclusive alone(upkeep);
  PauseSampling();
  SampleForGuards();
}

void ApplyGuardSample() noexcept {
  const Upkeep::Exclusive alone(upkeep);
  if (sampled_guards::Prepare() && !IsActive()) SampleForGuards();
}

void Stop() noexcept {
  FreeDeferred();
  const Upkeep::Exclusive alone(upkeep);
  PauseSampling();
  layers.profile().Discard(page_map);
  SampleForGuards();
}

bool Reset() noexcept {
  FreeDeferred();
  const Upkeep::Exclusive alone(upkeep);
  const uint64_t rate = IsActive() ? layers.front().sampling().rate() : 0;
  if (!layers.profile().Collects()) return true;
  PauseSampling();
  layers.profile().Discard(page_map);
  if (rate == 0) return SampleForGuards(), true;
  if (!Begin()) return false;
  layers.profile().SetActive(true, rate);
  layers.front().SetSampling(rate, Linux::NowNanos());
  return true;
}

}  // namespace granary::profiler
