// Threads that allocate, resize, free each other's objects, end and fork, while another thread
// switches sampling on and off at random rates, resets, pauses and dumps. No sample is lost, and
// none stays.
#include "../child.h"
#include "../resident.h"
#include "granary/profile.h"
#include "storm.h"

#pragma weak granary_profile_start
#pragma weak granary_profile_pause
#pragma weak granary_profile_stop
#pragma weak granary_profile_reset
#pragma weak granary_profile_dump
#pragma weak granary_profile_summarize
#pragma weak granary_profile_stack_at

namespace {

constexpr size_t kWorkers = 8, kLongWorkers = 64;
constexpr size_t kSlots = 400;
constexpr unsigned kMaxLog2 = 19;

// The run is over at the deadline, and not before there were cycles and samples: a slow processor
// has a longer run.
const storm::Deadline* g_deadline = nullptr;
constexpr size_t kLeastCycles = 6;
std::atomic<bool> g_over{false};
std::atomic<void*> g_exchange[64];  // objects in transit to another thread
size_t g_workers, g_cycles, g_samples;
// One cycle in this many is of each unusual kind. The number suits long runs: 30 s made 676 cycles
// while other programs used the two CPUs as well.
size_t g_kinds = 8;
constexpr size_t kLongKinds = 64;
size_t g_early_rss, g_last_rss;  // KiB, while there is no profile

void Exchange(uint64_t* random) {
  void* const mine = malloc(RandomSize(random, 14));
  free(g_exchange[NextRandom(random) % 64].exchange(mine));
}

void ShortLife(size_t, uint64_t random) {
  std::vector<storm::Block> blocks(20);
  for (int i = 0; i < 200; ++i) {
    storm::Block& block = blocks[NextRandom(&random) % blocks.size()];
    storm::Release(block);
    block = storm::Allocate(&random, 12);
  }
  for (storm::Block& block : blocks) storm::Release(block);
}

void ForkOnce(uint64_t random) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    EndIfStuck();
    ShortLife(0, random);
    granary_profile_start(1000, 1);
    ShortLife(0, random);
    granary_profile_stop();
    ShortLife(0, random);
    _exit(0);
  }
  ExpectCleanChild(child);
}

void Work(size_t index, uint64_t random) {
  std::vector<storm::Block> blocks(kSlots);
  for (int round = 0; !g_over; ++round) {
    for (int i = 0; i < 400; ++i) {
      storm::Block& block = blocks[NextRandom(&random) % kSlots];
      if (i % 16 == 0 && block.address != nullptr) {
        storm::Resize(block, &random, kMaxLog2);
        continue;
      }
      storm::Release(block);
      block = storm::Allocate(&random, kMaxLog2);
      Exchange(&random);
    }
    if (index == 1 && round % 4 == 0) storm::RunThreads(3, random, ShortLife);
    if (index == 2 && round % 16 == 0) ForkOnce(random);
  }
  for (storm::Block& block : blocks) storm::Release(block);
}

void CheckStacks() {
  granary_profile_summary s;
  if (granary_profile_summarize(&s, sizeof s) != 0) return;
  CHECK(s.allocated.samples >= s.freed.samples && s.allocated.bytes >= s.freed.bytes);
  CHECK(s.allocated.samples - s.freed.samples == s.live_samples);
  g_samples += s.allocated.samples;
  granary_profile_stack stack;
  for (size_t i = 0; granary_profile_stack_at(i, &stack, sizeof stack) == 0; ++i) {
    CHECK(stack.allocated.samples >= stack.freed.samples);
    CHECK(stack.allocated.objects >= stack.freed.objects);
    CHECK(stack.allocated.bytes >= stack.freed.bytes && stack.peak_bytes <= stack.allocated.bytes);
  }
}

void Switch(uint64_t random) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/granary_profile_switch.%d", getpid());
  while (!g_deadline->Passed() || g_cycles < kLeastCycles || g_samples == 0) {
    CHECK(granary_profile_start(size_t{64} << NextRandom(&random) % 14, NextRandom(&random)) == 0);
    usleep(static_cast<useconds_t>(NextRandom(&random) % 3000));
    const uint64_t choice = NextRandom(&random) % g_kinds;
    if (choice == 0) granary_profile_pause();
    if (choice == 1) CHECK(granary_profile_reset() == 0);
    if (choice == 2 && g_cycles % 8 == 0) granary_profile_dump(path);
    if (choice < 8) CheckStacks();
    if (choice != 3) granary_profile_stop();
    if (choice == 4) g_last_rss = ResidentBytes() / 1024;
    if (g_early_rss == 0 && g_cycles > 1000) g_early_rss = g_last_rss;
    ++g_cycles;
  }
  g_over = true;
  granary_profile_stop();
  unlink(path);
}

void WorkOrSwitch(size_t index, uint64_t random) {
  if (index == g_workers) return Switch(random);
  Work(index, random);
}

}  // namespace

int main(int argc, char** argv) {
  if (&granary_profile_start == nullptr) SkipTest("this process does not run on Granary.");
  const storm::Options options = storm::ParseOptions(argc, argv);
  const storm::Deadline deadline(options.seconds);
  g_deadline = &deadline;
  g_workers = options.seconds > storm::kSmokeSeconds ? kLongWorkers : kWorkers;
  if (g_workers == kLongWorkers) g_kinds = kLongKinds;
  storm::RunThreads(g_workers + 1, options.seed, WorkOrSwitch);
  for (std::atomic<void*>& block : g_exchange) free(block.load());
  granary_profile_summary none;
  CHECK(granary_profile_summarize(&none, sizeof none) == -1);
  CHECK(g_cycles >= kLeastCycles && g_samples > 0);
  // The memory that threads hold rises and falls; memory that each cycle leaks would add up.
  if (g_cycles > 3000) CHECK(g_last_rss < 2 * g_early_rss);
  printf("%zu KiB after 1,000 cycles, %zu at the end; ", g_early_rss, g_last_rss);
  printf("%zu times on and off, %zu samples\n", g_cycles, g_samples);
  return 0;
}
