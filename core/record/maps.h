// Which files the code of the process is from.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary::record {

// Copies the rows of /proc/self/maps that have code into a chunk of the recording, if one of the
// frames is in none of the rows copied so far.
void NoteModules(const uintptr_t* frames, size_t count);
// Before the first event of a file.
void ForgetModules();

}  // namespace granary::record
