// The heap as jemalloc's statistics describe it. All figures are read when `epoch` is written, so
// that the differences that programs compute from them do not wrap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compat/jemalloc/figure_rows.h"

namespace granary::jemalloc {

constexpr unsigned kAllArenas = 4096;
constexpr unsigned kDestroyedArenas = 4097;

// Reads everything anew.
void Refresh() noexcept;
uint64_t Epoch() noexcept;

// As of the last Refresh; all zero before the first.
const TotalFigures& Totals() noexcept;
// nullptr if there is no such arena.
const ArenaFigures* FiguresOf(size_t arena) noexcept;

}  // namespace granary::jemalloc
