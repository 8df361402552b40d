// TCMalloc's numeric properties, and TCMalloc's settings that Granary has.
#pragma once

#include <cstddef>

namespace granary::tcmalloc {

// False, and *value unchanged, for an unknown name. Neither function allocates.
bool GetProperty(const char* name, size_t* value) noexcept;
bool SetProperty(const char* name, size_t value) noexcept;

// The rate of purging: 0 never, 1 after the default decay time, 10 after a tenth of it.
double ReleaseRate() noexcept;
void SetReleaseRate(double rate) noexcept;

}  // namespace granary::tcmalloc
