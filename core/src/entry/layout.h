// The descriptor of this build (stats/descriptor.h), for those in the process who print the
// figures.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stats/descriptor.h"

namespace granary {

// The row of the metric that stands `index`-th in counters.def, and so in a Snapshot.
const MetricRow& MetricAt(size_t index) noexcept;
size_t MetricCount() noexcept;
// Makes the descriptor part of core files from here on, at the price of one page.
void RetainDescriptor() noexcept;
// A text of the descriptor.
const char* TextOf(TextAt at) noexcept;

}  // namespace granary
