// Profiles that are written without a call, as jemalloc's options ask for: each time so many bytes
// were allocated, at new peaks of mapped memory, and when the program ends.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary::profile_files {

// The start of their paths: "PREFIX.PID.NUMBER.REASON.heap". The reason is a letter and, except at
// the end, how many files had that reason before. The prefix is the text of the option prof_prefix,
// or what was set here; no file is written while it is empty.
const char* Prefix() noexcept;
void SetPrefix(const char* prefix) noexcept;

// Bytes allocated between two files; 0 for none.
uint64_t Interval() noexcept;
bool AtPeaks() noexcept;
void SetAtPeaks(bool on) noexcept;

// What the options ask for after a sample, and at the end. No lock may be held.
void AfterSample() noexcept;
// True if the process is to end with an error because of what it leaves allocated.
bool AtExit() noexcept;

// Writes a file because the program asked for one ('m'). False if no profile is collected, or the
// file cannot be written.
bool Write(char reason) noexcept;
bool WriteTo(const char* path) noexcept;

}  // namespace granary::profile_files
