// Heap profiles of the process: takes samples, follows them until they are freed, starts and ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "sizes/size_classes.h"

namespace granary::profiler {

// Samples p, an object of class c (kNoClass: a large block) of `bytes` bytes.
GRANARY_COLD void Sample(void* p, SizeClass c, size_t bytes, size_t requested) noexcept;
// Before p is freed: true if it may be freed now, false if that has to wait.
GRANARY_COLD bool Unsample(void* p) noexcept;
// The large block p has changed its size.
GRANARY_COLD void ResampleLarge(void* p, size_t size) noexcept;

// kAlready: a profile was collected before, and goes on at the new rate.
enum class Started : uint8_t { kRefused, kFresh, kAlready };

// The layers are ready when one of these is called. Takes samples from here on, one in `rate`
// bytes. A seed of 0 stands for one from the clock.
GRANARY_COLD Started Start(uint64_t rate, uint64_t seed) noexcept;
// Takes no more samples, and follows those that exist.
GRANARY_COLD void Pause() noexcept;
// Discards the profile, and starts an empty one if samples are being taken.
GRANARY_COLD bool Reset() noexcept;
// Takes no more samples, and discards the profile.
GRANARY_COLD void Stop() noexcept;

}  // namespace granary::profiler
