// mallctl: reads and writes figures and switches by name.
#pragma once

#include <cstddef>

namespace granary::jemalloc {

// Returns 0 or an errno.
int Control(const char* name, void* oldp, size_t* oldlenp, void* newp, size_t newlen) noexcept;
int ControlByMib(const size_t* mib, size_t length, void* oldp, size_t* oldlenp, void* newp,
                 size_t newlen) noexcept;
int NameToMib(const char* name, size_t* mib, size_t* length) noexcept;

// "5.3.1-0-g0 (Granary 0.1.0)": the version of the interface, and of the library.
extern const char kVersion[];

}  // namespace granary::jemalloc
