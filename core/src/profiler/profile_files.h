// Profiles that are written without a call of the program, when jemalloc's options ask for them:
// after each so many allocated bytes, at new peaks of mapped memory, and when the program ends.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary::profile_files {

// The start of the file names: "PREFIX.PID.NUMBER.REASON.heap". The reason is a letter, followed
// (except at exit) by the number of earlier files with that reason. The prefix is the option
// prof_prefix, or the text that SetPrefix stored. No file is written while the prefix is empty.
const char* Prefix() noexcept;
void SetPrefix(const char* prefix) noexcept;

// Bytes allocated between two files; 0 for none.
uint64_t Interval() noexcept;
bool AtPeaks() noexcept;
void SetAtPeaks(bool on) noexcept;

// Writes the files that are due after a sample, and at exit. The caller holds no lock.
void AfterSample() noexcept;
// True if the process must end with an error because objects are still allocated.
bool AtExit() noexcept;

// Writes a file that the program requested ('m'). False if there is no profile or the file cannot
// be written.
bool Write(char reason) noexcept;
bool WriteTo(const char* path) noexcept;

}  // namespace granary::profile_files
