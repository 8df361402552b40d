// The heap as jemalloc's statistics describe it. A write of `epoch` reads all figures in one call,
// so that differences between figures do not wrap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compat/jemalloc/figure_rows.h"

namespace granary::jemalloc {

constexpr unsigned kAllArenas = 4096;
constexpr unsigned kDestroyedArenas = 4097;

// Reads all figures again.
void Refresh() noexcept;
uint64_t Epoch() noexcept;

// As of the last Refresh; all zero before the first one.
const TotalFigures& Totals() noexcept;
// nullptr if there is no such arena.
const ArenaFigures* FiguresOf(size_t arena) noexcept;

}  // namespace granary::jemalloc
