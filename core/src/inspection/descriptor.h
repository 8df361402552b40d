// The descriptor of this build (stats/descriptor_format.h), for functions that print figures inside
// the process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config/options.h"
#include "layers/layers.h"
#include "stats/descriptor_format.h"
#include "upkeep/upkeep.h"

namespace granary {

// The row with this index in counters.def, and so in a Snapshot.
const MetricRow& MetricAt(size_t index) noexcept;
size_t MetricCount() noexcept;
struct DescriptorPlace {
  const void* p;
  size_t bytes;
};
DescriptorPlace DescriptorBytes() noexcept;
// Adds the descriptor to later core files, at the cost of one page.
void RetainDescriptor() noexcept;
// Calls visit(p, bytes) for all memory that the figures are computed from, except the caches.
template <class Visit>
void ForEachPublished(Visit&& visit) noexcept {
  visit(DescriptorBytes().p, DescriptorBytes().bytes);
  visit(&layers, sizeof layers);
  visit(&upkeep, sizeof upkeep);
  visit(&options, sizeof options);
  visit(&threads, sizeof threads);
  visit(&system_calls, sizeof system_calls);
  visit(&page_map.leaves, sizeof page_map.leaves);
}
// A text of the descriptor.
const char* TextOf(TextAt at) noexcept;

}  // namespace granary
