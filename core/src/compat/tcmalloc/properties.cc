#include "compat/tcmalloc/properties.h"

#include "config/text.h"
#include "heap/heap.h"
#include "inspection/measure.h"
#include "upkeep/apply_options.h"

namespace granary::tcmalloc {
namespace {

constexpr size_t kDecayRow = static_cast<size_t>(OptionId::dirty_decay_ms);
constexpr size_t kCacheRow = static_cast<size_t>(OptionId::cache_bytes);

uint64_t Less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
uint64_t Physical(const Snapshot& s) {
  return Less(s.used_spans, s.slab_clean) + s.dirty + s.metadata_used;
}
uint64_t Unmapped(const Snapshot& s) { return Less(s.mapped, s.used_spans + s.dirty); }
uint64_t Cpus() {
  const unsigned count = Linux::CpuCount();
  return count > 0 ? count : 1;
}

struct Names {
  char text[60];
};

}  // namespace

bool GetProperty(const char* name, size_t* value) noexcept {
  constexpr Names names[] = {
#define PROPERTY(name, value) {name},
#include "compat/tcmalloc/properties.def"
  };
  const Piece wanted{name, __builtin_strlen(name)};
  bool known = false;
  for (const Names& row : names) known |= wanted.Is(row.text);
  if (!known) return false;
  heap::EnsureInit();
  const Snapshot s = Measure();
#define PROPERTY(name, expression) \
  if (wanted.Is(name)) *value = expression;
#include "compat/tcmalloc/properties.def"
  return true;
}

bool SetProperty(const char* name, size_t value) noexcept {
  const Piece wanted{name, __builtin_strlen(name)};
  if (wanted.Is("tcmalloc.max_total_thread_cache_bytes")) {
    const uint64_t each = value / Cpus();
    const uint64_t most = static_cast<uint64_t>(kOptions[kCacheRow].highest);
    options.Set(kCacheRow, static_cast<int64_t>(each < most ? each : most), Source::kRunning);
    ApplyOptions();
    return true;
  }
  if (wanted.Is("tcmalloc.aggressive_memory_decommit")) {
    options.Set(kDecayRow, value != 0 ? 0 : kOptions[kDecayRow].default_value, Source::kRunning);
    return true;
  }
  return false;
}

double ReleaseRate() noexcept {
  if (options.dirty_decay_ms < 0) return 0;
  const double usual = static_cast<double>(kOptions[kDecayRow].default_value);
  return usual / static_cast<double>(options.dirty_decay_ms > 0 ? options.dirty_decay_ms : 1);
}

void SetReleaseRate(double rate) noexcept {
  const double usual = static_cast<double>(kOptions[kDecayRow].default_value);
  const double most = static_cast<double>(kOptions[kDecayRow].highest);
  const double wanted = rate > 0 ? usual / rate : -1;
  options.Set(kDecayRow, static_cast<int64_t>(wanted < most ? wanted : most), Source::kRunning);
}

}  // namespace granary::tcmalloc
