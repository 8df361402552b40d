// The functions of granary/profile.h.

#include "base/compiler.h"
#include "granary/profile.h"
#include "heap/heap.h"
#include "layers/layers.h"
#include "profiler/jeprof_writer.h"
#include "profiler/profiler.h"
#include "unwind/unwind.h"

using granary::layers;
using granary::Locked;
namespace heap = granary::heap;
namespace profiler = granary::profiler;
namespace samples = granary::samples;

namespace {

granary_profile_amount AmountOf(const samples::Amount& a) {
  return {a.samples, static_cast<double>(a.objects) / samples::kObjectScale, a.bytes, a.requested};
}

void Store(void* to, size_t room, const void* from, size_t size) {
  __builtin_memcpy(to, from, room < size ? room : size);
}

}  // namespace

extern "C" {

GRANARY_EXPORT int granary_profile_start(size_t rate, uint64_t seed) {
  heap::EnsureInit();
  granary::unwind::Refresh();
  if (rate == 0) rate = static_cast<size_t>(granary::options.prof_sample);
  return profiler::Start(rate, seed) == profiler::Started::kRefused ? -1 : 0;
}

GRANARY_EXPORT void granary_profile_pause(void) {
  heap::EnsureInit();
  profiler::Pause();
}
GRANARY_EXPORT int granary_profile_reset(void) {
  heap::EnsureInit();
  return profiler::Reset() ? 0 : -1;
}
GRANARY_EXPORT void granary_profile_stop(void) {
  heap::EnsureInit();
  profiler::Stop();
}

GRANARY_EXPORT int granary_profile_dump(const char* path) {
  return granary::WriteJeprof(path, granary::JeprofForm::kGperftools) ? 0 : -1;
}

GRANARY_EXPORT int granary_profile_stack_at(size_t index, struct granary_profile_stack* stack,
                                            size_t bytes) {
  const Locked hold(layers.profile().mutex());
  const samples::Head* const head = layers.profile().head();
  if (head == nullptr || index >= head->stacks) return -1;
  const samples::Stack& s = layers.profile().stacks()[index];
  const granary_profile_stack row{layers.profile().frames() + s.first_frame,
                                  s.depth,
                                  AmountOf(s.allocated),
                                  AmountOf(s.freed),
                                  AmountOf(s.temporary),
                                  s.peak_bytes};
  Store(stack, bytes, &row, sizeof row);
  return 0;
}

GRANARY_EXPORT int granary_profile_summarize(struct granary_profile_summary* summary,
                                             size_t bytes) {
  const Locked hold(layers.profile().mutex());
  const samples::Head* const head = layers.profile().head();
  if (head == nullptr) return -1;
  const samples::Lost& lost = head->lost;
  const granary_profile_summary row{head->rate,
                                    head->active != 0,
                                    head->stacks,
                                    head->live_samples,
                                    lost.stacks + lost.samples + lost.reentered + lost.late,
                                    AmountOf(head->allocated),
                                    AmountOf(head->freed)};
  Store(summary, bytes, &row, sizeof row);
  return 0;
}

}  // extern "C"
