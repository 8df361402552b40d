// The profile as jemalloc writes it ("heap_v2"): text that jeprof and pprof read.
#pragma once

namespace granary {

// To a new file, or over an old one; false if there is no profile or the file cannot be written.
bool WriteHeapV2(const char* path) noexcept;

}  // namespace granary
