// RLIMIT_DATA, which limits private writable memory, set before the program starts and lowered
// while it runs: null and ENOMEM, no damage, as under RLIMIT_AS.
#include "oom.h"

namespace {

constexpr size_t kMebi = size_t{1} << 20;

void LoweredWhileRunning() {
  oom::Limit(RLIMIT_DATA, oom::StatusBytes("VmData:") + 96 * kMebi);
  oom::RunAll(256 * kMebi, false);
  oom::Limit(RLIMIT_DATA, RLIM_INFINITY);
  oom::ExhaustAndRecover({1000, 0}, 128 * kMebi, false);
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) {
    oom::RunAll(1024 * kMebi, true);
    return 0;
  }
  oom::RunLimited(RLIMIT_DATA, 256 * kMebi, "from the start");
  LoweredWhileRunning();
  oom::ThreadsStartAndAllocate();
}
