// TCMalloc's numeric properties, and those of its settings that Granary has.
#pragma once

#include <cstddef>

namespace granary::tcmalloc {

// False, with *value as it was, for a name that is not known. Neither allocates.
bool GetProperty(const char* name, size_t* value) noexcept;
bool SetProperty(const char* name, size_t value) noexcept;

// How fast free memory goes back: 0 never, 1 in the usual time, 10 ten times as fast.
double ReleaseRate() noexcept;
void SetReleaseRate(double rate) noexcept;

}  // namespace granary::tcmalloc
