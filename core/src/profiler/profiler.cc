#include "profiler/profiler.h"

#include "layers/class_figures.h"
#include "layers/layers.h"
#include "profiler/profile_files.h"
#include "profiler/profile_hooks.h"
#include "profiler/sampled_threads.h"
#include "unwind/unwind.h"
#include "upkeep/upkeep.h"

// The ELF header of the file that holds this code, and the end of the shared library's image
// (ship.cmake). The end is absent where the library is linked into a program.
extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden"), weak));
extern const char granary_image_end[] __attribute__((visibility("hidden"), weak));
}

namespace granary::profiler {
namespace {

bool IsOfLibrary(uintptr_t frame) {
  return granary_image_end != nullptr &&
         frame - AddressOf(__ehdr_start) < AddressOf(granary_image_end) - AddressOf(__ehdr_start);
}

// The stack of the program's call into the library.
struct CallStack {
  uintptr_t frames[samples::kMostDepth + 16];
  size_t first = 0, end = 0;
  samples::Ends ends;

  GRANARY_ALWAYS_INLINE CallStack() {
    unwind::Result how;
    end = unwind::Walk(unwind::Here(), frames, sizeof frames / sizeof *frames, &how);
    while (first < end && IsOfLibrary(frames[first])) ++first;
    const size_t most = sampled_threads::MostDepth();
    const bool cut = how.stop == unwind::Stop::kFull || end - first > most;
    if (end - first > most) end = first + most;
    ends = {cut, !cut && how.stop != unwind::Stop::kOutermost, how.guessed};
  }
};

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

// Frees the objects that a thread freed while it could not record the free.
void FreeDeferred() {
  while (layers.profile().AnyDeferred()) {
    void* const p = layers.profile().TakeDeferred();
    if (p != nullptr && Unsample(p)) layers.Free(p);
  }
}

}  // namespace

void Sample(void* p, SizeClass c, size_t bytes, size_t requested) noexcept {
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
}

void Stop() noexcept {
  FreeDeferred();
  const Upkeep::Exclusive alone(upkeep);
  PauseSampling();
  layers.profile().Discard(page_map);
}

bool Reset() noexcept {
  FreeDeferred();
  const Upkeep::Exclusive alone(upkeep);
  const uint64_t rate = layers.front().sampling().rate();
  if (!layers.profile().Collects()) return true;
  PauseSampling();
  layers.profile().Discard(page_map);
  if (rate == 0) return true;
  if (!Begin()) return false;
  layers.profile().SetActive(true, rate);
  layers.front().SetSampling(rate, Linux::NowNanos());
  return true;
}

}  // namespace granary::profiler
