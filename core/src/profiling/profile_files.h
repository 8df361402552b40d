// Profiles that are written by themselves, as jemalloc's options ask for: at intervals of allocated
// bytes, at new peaks of mapped memory, when the program ends.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary::profile_files {

// Where they go: "PREFIX.PID.NUMBER.REASON.heap", the reason a letter and, but at the end, how
// often there was that reason before. The text of the option prof_prefix, or what was set here;
// none are written where it is empty.
const char* Prefix() noexcept;
void SetPrefix(const char* prefix) noexcept;

// Bytes between two; 0 for none.
uint64_t Interval() noexcept;
bool AtPeaks() noexcept;
void SetAtPeaks(bool on) noexcept;

// Whether allocations of the calling thread, and of threads not sampled yet, are sampled.
bool ThreadIsSampled() noexcept;
bool NewThreadsAreSampled() noexcept;
void SetNewThreadsAreSampled(bool on) noexcept;
// The same, when a sample is due: the thread keeps the answer.
bool TakesSamples() noexcept;
// Addresses of a stack to keep.
size_t MostDepth() noexcept;

// What the options ask for at the start, after a sample, and at the end. No lock may be held.
void AtStart() noexcept;
void AfterSample() noexcept;
// True if the process is to end with an error, for what it leaves allocated.
bool AtExit() noexcept;

// One because the program asked for it ('m'). False if there is none, or it cannot be written.
bool Write(char reason) noexcept;
bool WriteTo(const char* path) noexcept;

}  // namespace granary::profile_files
