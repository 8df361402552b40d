// Profiles that are written by themselves, as jemalloc's options ask for: at intervals of allocated
// bytes, at new peaks of mapped memory, when the program ends.
#pragma once

#include <cstdint>

namespace granary::profile_files {

// Where they go: "PREFIX.PID.NUMBER.REASON.heap"; the text of the option prof_prefix, or this.
const char* Prefix() noexcept;
void SetPrefix(const char* prefix) noexcept;

// Bytes between two; 0 for none.
uint64_t Interval() noexcept;
bool AtPeaks() noexcept;
void SetAtPeaks(bool on) noexcept;

// What the options ask for at the start, after a sample, and at the end. No lock may be held.
void AtStart() noexcept;
void AfterSample() noexcept;
void AtExit() noexcept;

// One because the program asked for it ('m'). False if there is none, or it cannot be written.
bool Write(char reason) noexcept;

}  // namespace granary::profile_files
