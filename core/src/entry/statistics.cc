// The functions of granary/stats.h.

#include "granary/stats.h"

#include <string.h>

#include "base/compiler.h"
#include "heap/heap.h"
#include "inspection/descriptor.h"
#include "inspection/measure.h"
#include "layers/class_figures.h"

using namespace granary;

static_assert(sizeof(granary_class_figures) == sizeof(ClassFigures) &&
                  offsetof(granary_class_figures, clean_bytes) ==
                      offsetof(ClassFigures, clean_bytes),
              "the one is copied to the other");

extern "C" {

GRANARY_EXPORT int granary_stat(const char* name, uint64_t* value) {
  for (size_t i = 0; i < MetricCount(); ++i) {
    if (strcmp(TextOf(MetricAt(i).name), name) != 0) continue;
    heap::EnsureInit();
    *value = ValueOf(Measure(), i);
    return 0;
  }
  return -1;
}

GRANARY_EXPORT size_t granary_stats(uint64_t* values, size_t room) {
  heap::EnsureInit();
  const Snapshot s = Measure();
  for (size_t i = 0; i < MetricCount() && i < room; ++i) values[i] = ValueOf(s, i);
  return MetricCount();
}

GRANARY_EXPORT int granary_stat_describe(size_t index,
                                         struct granary_stat_description* description) {
  if (index >= MetricCount()) return -1;
  const MetricRow& row = MetricAt(index);
  *description = {TextOf(row.name), TextOf(row.kind), TextOf(row.unit), TextOf(row.layer),
                  TextOf(row.meaning)};
  return 0;
}

GRANARY_EXPORT void granary_reset_peaks(void) {
  heap::EnsureInit();
  upkeep.peaks().Reset();
}

GRANARY_EXPORT int granary_class_stats(size_t index, struct granary_class_figures* stats,
                                       size_t bytes) {
  if (index >= kNumClasses - 1) return -1;
  const ClassFigures figures = MeasureClass(static_cast<SizeClass>(index + 1));
  memcpy(stats, &figures, bytes < sizeof figures ? bytes : sizeof figures);
  return 0;
}

}  // extern "C"
