// malloc_stats_print: the statistics as text or JSON, in the form that programs parse.
#pragma once

#include "compat/jemalloc/output.h"

namespace granary::jemalloc {

// `letters` as for jemalloc: J for JSON; g, m, d, a, b, l, x, e and h each omit a part.
void PrintStats(PrintTo to, void* argument, const char* letters) noexcept;

}  // namespace granary::jemalloc
