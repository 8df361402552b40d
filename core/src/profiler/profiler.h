// Heap profiles of the process: starts and ends them, takes samples, and records when sampled
// objects are freed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "sizes/size_classes.h"

namespace granary::profiler {

// Samples p, an object of class c (kNoClass: a block) of `bytes` bytes.
GRANARY_COLD void Sample(void* p, SizeClass c, size_t bytes, size_t requested) noexcept;
// Records that p is about to be freed. True if the caller may free p now, false if p is deferred.
GRANARY_COLD bool Unsample(void* p) noexcept;
// Records that the block p has changed its size.
GRANARY_COLD void ResampleLarge(void* p, size_t size) noexcept;

// kAlready: a profile existed before, and continues at the new rate.
enum class Started : uint8_t { kRefused, kFresh, kAlready };

// The layers must be ready before one of these functions is called. Start takes samples, one per
// `rate` bytes on average. A seed of 0 means a seed from the clock.
GRANARY_COLD Started Start(uint64_t rate, uint64_t seed) noexcept;
// Stops taking samples, but records when sampled objects are freed.
GRANARY_COLD void Pause() noexcept;
// Discards the profile. If sampling is on, it continues with an empty profile.
GRANARY_COLD bool Reset() noexcept;
// Stops taking samples and discards the profile.
GRANARY_COLD void Stop() noexcept;

// Call it after the option guard_sample was set. While a profile runs, no object is guarded: the
// profile has the samples.
GRANARY_COLD void ApplyGuardSample() noexcept;

}  // namespace granary::profiler
