// live_peak: the peak of live bytes, although no reader measured meanwhile; no higher than the true
// peak; and restarted after a reset.
#include <pthread.h>

#include "../check.h"
#include "granary/stats.h"

namespace {

template <class Function>
Function* Find(Function*, const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  CHECK(found != nullptr);
  return found;
}

uint64_t Figure(const char* name) {
  static auto* const stat = Find(&granary_stat, "granary_stat");
  uint64_t value = 0;
  CHECK(stat(name, &value) == 0);
  return value;
}

constexpr size_t kObjects = 200000;
constexpr uint64_t kMiB = 1 << 20;

// `threads` threads hold objects of 100 to 355 bytes for a moment at the same time. Nothing stays.
void* HoldForAMoment(void* barrier) {
  static thread_local void* objects[kObjects];
  for (size_t i = 0; i < kObjects; ++i) objects[i] = Hide(malloc(100 + i % 256));
  pthread_barrier_wait(static_cast<pthread_barrier_t*>(barrier));
  pthread_barrier_wait(static_cast<pthread_barrier_t*>(barrier));
  for (void* p : objects) free(p);
  return nullptr;
}

// Returns the live bytes at the top, from the figures themselves.
uint64_t Rise(size_t threads) {
  pthread_barrier_t barrier;
  CHECK(pthread_barrier_init(&barrier, nullptr, static_cast<unsigned>(threads) + 1) == 0);
  pthread_t all[4];
  for (size_t i = 0; i < threads; ++i)
    CHECK(pthread_create(&all[i], nullptr, HoldForAMoment, &barrier) == 0);
  pthread_barrier_wait(&barrier);
  const uint64_t live = Figure("large") + kObjects * threads * 228;  // the mean request
  pthread_barrier_wait(&barrier);
  for (size_t i = 0; i < threads; ++i) CHECK(pthread_join(all[i], nullptr) == 0);
  pthread_barrier_destroy(&barrier);
  return live;
}

void CheckPeak(uint64_t least) {
  const uint64_t peak = Figure("live_peak");
  printf("at least %lu live, peak %lu, of spans %lu, held %lu\n", static_cast<unsigned long>(least),
         static_cast<unsigned long>(peak), static_cast<unsigned long>(Figure("used_spans_peak")),
         static_cast<unsigned long>(Figure("held_peak")));
  // The figure may lag by a step: more than a MiB, or a sixty-fourth. Rounding adds up to an
  // eighth.
  CHECK(peak + peak / 64 + 2 * kMiB >= least);
  CHECK(peak <= least + least / 8 + 2 * kMiB);
  CHECK(peak <= Figure("used_spans_peak"));
  CHECK(Figure("used_spans_peak") <= Figure("held_peak"));
}

}  // namespace

int main() {
  if (OnSystemHeap()) SkipTest("the figures are Granary's own.");
  auto* const reset = Find(&granary_reset_peaks, "granary_reset_peaks");
  const uint64_t high = Rise(4);
  CheckPeak(high);
  CHECK(Figure("live") < high / 4);

  reset();
  CHECK(Figure("live_peak") < high / 4);
  CHECK(Figure("held_peak") == Figure("held") || Figure("held_peak") < high * 2);
  CheckPeak(Rise(1));

  // A block is included immediately, and also when it grows in place.
  reset();
  void* block = Hide(malloc(64 * kMiB));
  block = Hide(realloc(block, 80 * kMiB));
  const uint64_t with = Figure("live");
  free(block);
  CHECK(Figure("live_peak") >= with && Figure("live") < with);
}
