// Makes the calls of a trace in the library's own layers, over a machine that is not there: no
// object is ever accessed. `granary simulate` runs it: simulate SEQUENCE, where - is standard
// input; it prints the results as JSON.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "simulate/machine.h"
#include "simulate/player.h"

namespace granary::simulate {
namespace {

void Number(const char* name, uint64_t value) {
  std::printf("\"%s\": %" PRIu64 ",\n", name, value);
}

void Print(const Player& player) {
  const PageCounts& pages = machine.pages.counts();
  const Counts& counts = player.counts();
  const CallCounts& calls = machine.calls;
  std::printf("{\n");
  Number("peak_rss", player.peak());
  Number("mean_rss", static_cast<uint64_t>(player.mean_resident()));
  Number("end_rss", player.end());
  Number("live_peak", counts.live_peak);
  Number("live_end", counts.live);
  Number("allocations", counts.allocations);
  Number("frees", counts.frees);
  Number("misses", Player::misses());
  Number("overflows", counts.overflows);
  Number("refused", counts.refused);
  Number("faults", pages.faults);
  Number("huge_faults", pages.huge_faults);
  Number("purged_pages", pages.purged);
  Number("refaulted_pages", pages.refaulted);
  Number("mmap", calls.mmap);
  Number("munmap", calls.munmap);
  Number("mprotect", calls.mprotect);
  Number("madvise", calls.madvise);
  Number("mremap", calls.mremap);
  Number("membarrier", calls.membarrier);
  Number("placed_bytes", counts.placed);
  Number("remote_bytes", counts.remote);
  std::printf("\"curve\": [");
  const char* comma = "";
  for (const Point& point : player.curve()) {
    std::printf("%s\n[%" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", comma, point.nanos, point.resident,
                point.live);
    comma = ",";
  }
  std::printf("]\n}\n");
}

}  // namespace
}  // namespace granary::simulate

int main(int argc, char** argv) {
  using namespace granary::simulate;
  if (argc != 2) Fail("say which sequence to simulate; `granary simulate` writes it");
  static Sequence sequence(argv[1]);
  Player player;
  player.Play(sequence);
  Print(player);
  if (std::fflush(stdout) != 0) Fail("the results cannot be written");
  std::_Exit(0);  // not the library's own work at exit
}
