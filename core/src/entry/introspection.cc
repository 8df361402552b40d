// glibc's functions that report on the heap or tune it, and the functions of granary/granary.h.

#include <errno.h>
#include <malloc.h>
#include <stdio.h>

#include "base/writer.h"
#include "config/apply_text.h"
#include "granary/granary.h"
#include "heap/heap.h"
#include "inspection/descriptor.h"
#include "inspection/measure.h"
#include "profiler/profiler.h"
#include "upkeep/apply_options.h"
#include "upkeep/upkeep.h"

using namespace granary;

namespace {

template <class Info, class Field>
Info FillInfo() {
  heap::EnsureInit();
  const Snapshot s = Measure();
  Info info{};
  // bytes of slabs and spans, without blocks
  info.arena = static_cast<Field>(s.used_spans - s.large + s.dirty);
  info.ordblks = static_cast<Field>(s.slabs);
  info.hblks = static_cast<Field>(s.large > 0);
  info.hblkhd = static_cast<Field>(s.large);
  info.uordblks = static_cast<Field>(s.live);
  info.fordblks = static_cast<Field>(s.cached + s.depot + s.slab_free + s.dirty);
  info.keepcost = static_cast<Field>(s.dirty);
  return info;
}

}  // namespace

extern "C" {

#if defined(__GLIBC__)
GRANARY_EXPORT struct mallinfo mallinfo(void) noexcept { return FillInfo<struct mallinfo, int>(); }
GRANARY_EXPORT struct mallinfo2 mallinfo2(void) noexcept {
  return FillInfo<struct mallinfo2, size_t>();
}
#endif

// glibc's parameters have no counterpart in Granary. The function accepts all of them.
GRANARY_EXPORT int mallopt(int, int) noexcept { return 1; }

GRANARY_EXPORT int malloc_trim(size_t) noexcept { return heap::Trim() > 0 ? 1 : 0; }

GRANARY_EXPORT void malloc_stats(void) noexcept {
  heap::EnsureInit();
  const Snapshot s = Measure();
  for (size_t i = 0; i < MetricCount(); ++i) {
    const MetricRow& row = MetricAt(i);
    char line[160];
    Writer w(line, sizeof line);
    w.Text("granary: ").Text(TextOf(row.name)).Text(" ").Number(ValueOf(s, i));
    w.Text(" ").Text(TextOf(row.unit)).Text("\n");
    Linux::WriteError(w.data(), w.size());
  }
}

GRANARY_EXPORT int malloc_info(int options, FILE* out) noexcept {
  if (options != 0) return EINVAL;
  heap::EnsureInit();
  const Snapshot s = Measure();
  fprintf(out, "<malloc version=\"1\">\n");
  for (size_t i = 0; i < MetricCount(); ++i) {
    const MetricRow& row = MetricAt(i);
    fprintf(out, "<granary name=\"%s\" unit=\"%s\" value=\"%lu\"/>\n", TextOf(row.name),
            TextOf(row.unit), static_cast<unsigned long>(ValueOf(s, i)));
  }
  fprintf(out, "</malloc>\n");
  return 0;
}

// gperftools' names.
#define GRANARY_ALIAS(name) __attribute__((alias(name), visibility("default")))
#if defined(__GLIBC__)
GRANARY_ALIAS("mallinfo") struct mallinfo tc_mallinfo(void) noexcept;
GRANARY_ALIAS("mallinfo2") struct mallinfo2 tc_mallinfo2(void) noexcept;
#endif
GRANARY_ALIAS("mallopt") int tc_mallopt(int, int) noexcept;
GRANARY_ALIAS("malloc_stats") void tc_malloc_stats(void) noexcept;
#undef GRANARY_ALIAS

GRANARY_EXPORT const char* granary_version(void) { return "granary " GRANARY_VERSION; }
GRANARY_EXPORT size_t granary_good_size(size_t size) { return heap::GoodSize(size, 1); }
GRANARY_EXPORT size_t granary_release_free_memory(void) { return heap::Trim(); }
GRANARY_EXPORT int granary_set_options(const char* text) {
  heap::EnsureInit();
  const bool fine = ApplyText(options, text, Source::kRunning);
  ApplyOptions();
  profiler::ApplyGuardSample();
  return fine ? 0 : -1;
}

GRANARY_EXPORT int granary_add_threshold(size_t bytes, granary_threshold_callback callback,
                                         void* context) {
  return upkeep.thresholds().Add(bytes, callback, context) ? 0 : -1;
}
GRANARY_EXPORT int granary_remove_threshold(granary_threshold_callback callback, void* context) {
  return upkeep.thresholds().Remove(callback, context) ? 0 : -1;
}

}  // extern "C"
