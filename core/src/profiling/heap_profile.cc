// What sampling asks of the heap as a whole: to take a sample, to see it freed, to begin and to
// end.

#include "front/thread_settings.h"
#include "heap/heap.h"
#include "profiling/profile_files.h"
#include "profiling/profile_hooks.h"
#include "reflect/measure.h"
#include "unwind/unwind.h"

// The head of the file that holds this code, and where the image of the shared library ends
// (ship.cmake), which is absent from a program that the library is linked into.
extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden"), weak));
extern const char granary_image_end[] __attribute__((visibility("hidden"), weak));
}

namespace granary {
namespace {

bool IsOurs(uintptr_t frame) {
  return granary_image_end != nullptr &&
         frame - AddressOf(__ehdr_start) < AddressOf(granary_image_end) - AddressOf(__ehdr_start);
}

// The stack of whoever called the library.
struct CallStack {
  uintptr_t frames[profile::kMostDepth + 16];
  size_t first = 0, end = 0;
  profile::Ends ends;

  GRANARY_ALWAYS_INLINE CallStack() {
    unwind::Result how;
    end = unwind::Walk(unwind::Here(), frames, sizeof frames / sizeof *frames, &how);
    while (first < end && IsOurs(frames[first])) ++first;
    const size_t most = profile_files::MostDepth();
    const bool cut = how.stop == unwind::Stop::kFull || end - first > most;
    if (end - first > most) end = first + most;
    ends = {cut, !cut && how.stop != unwind::Stop::kOutermost, how.guessed};
  }
};

}  // namespace

void Heap::Sample(void* p, SizeClass c, size_t bytes, size_t requested) noexcept {
  if (!profile_.MayRecord()) return profile_.LoseReentered();
  if (!profile_files::TakesSamples()) return;
  upkeep_.Poll();  // a program that lives in its caches takes no other slow path
  CallStack stack;
  CountLate(c);
  const profile::Taken taken{p,         c, bytes, requested, Linux::NowNanos(), Linux::ThreadId(),
                             stack.ends};
  const bool recorded =
      profile_.Record(page_map, taken, stack.frames + stack.first, stack.end - stack.first);
  FreeDeferred();
  if (recorded)
    profile_hooks::Sampled(p, requested, stack.frames + stack.first, stack.end - stack.first,
                           bytes);
  profile_files::AfterSample();
}

void Heap::CountLate(SizeClass c) noexcept {
  const uint64_t late = c == kNoClass ? 0 : front_.TakeLate(c);
  if (late == 0) return;
  const uint64_t objects = profile::ObjectsFor(kClassSize[c], front_.sampling().rate());
  profile_.CountLate(late, late * profile::AmountOf(objects, kClassSize[c], 0).bytes);
}

bool Heap::Unsample(void* p) noexcept {
  if (!profile_.Knows(p)) return true;
  if (!profile_.MayRecord()) return profile_.Defer(p), false;
  const size_t bytes = profile_.Freed(page_map, p, Linux::NowNanos(), Linux::ThreadId());
  if (bytes != 0) profile_hooks::Freed(p, bytes);
  return true;
}

void Heap::ResampleLarge(void* p, size_t size) noexcept {
  if (!Unsample(p)) return;
  if (front_.sampling().Chosen(size)) Sample(p, kNoClass, size, size);
}

// What is exact: the counters as they stand.
void Heap::FillProfileHead() noexcept {
  profile::Head& head = *profile_.head();
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    const ClassFigures f = MeasureClass(c);
    head.allocations_before[c] = f.allocations;
    head.live_before[c] = f.live;
  }
  const PageStats pages = pages_.Stats();
  head.allocations_before[kNoClass] = pages.large_allocations;
  head.live_before[kNoClass] = pages.large_allocations - pages.large_frees;
  head.large_live_bytes = pages.large;
}

bool Heap::BeginProfile() noexcept {
  if (!profile_.Begin({0, Linux::NowNanos(), Linux::NowUnixNanos()})) return false;
  FillProfileHead();
  return true;
}

Heap::Started Heap::StartProfile(uint64_t rate, uint64_t seed) noexcept {
  EnsureInit();
  const Upkeep::Exclusive alone(upkeep_);
  const bool fresh = !profile_.Collects();
  if (fresh && !BeginProfile()) return Started::kRefused;
  if (front_.sampling().rate() != rate) {
    if (front_.sampling().on()) front_.SetSampling(0, 0);
    profile_.SetActive(true, rate);
    front_.SetSampling(rate, seed != 0 ? seed : Linux::NowNanos());
  }
  return fresh ? Started::kFresh : Started::kAlready;
}

void Heap::PauseProfile() noexcept {
  EnsureInit();
  const Upkeep::Exclusive alone(upkeep_);
  PauseSampling();
}

void Heap::PauseSampling() noexcept {
  if (front_.sampling().on()) front_.SetSampling(0, 0);
  profile_.SetActive(false, 0);
}

void Heap::StopProfile() noexcept {
  EnsureInit();
  FreeDeferred();
  const Upkeep::Exclusive alone(upkeep_);
  PauseSampling();
  profile_.Discard(page_map);
}

bool Heap::ResetProfile() noexcept {
  EnsureInit();
  FreeDeferred();
  const Upkeep::Exclusive alone(upkeep_);
  const uint64_t rate = front_.sampling().rate();
  if (!profile_.Collects()) return true;
  PauseSampling();
  profile_.Discard(page_map);
  if (rate == 0) return true;
  if (!BeginProfile()) return false;
  profile_.SetActive(true, rate);
  front_.SetSampling(rate, Linux::NowNanos());
  return true;
}

void Heap::FreeDeferred() noexcept {
  while (profile_.AnyDeferred()) {
    void* const p = profile_.TakeDeferred();
    if (p != nullptr) Free(p);
  }
}

}  // namespace granary
