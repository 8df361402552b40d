// Four threads run out of memory together under RLIMIT_AS. Each frees memory that the others wait
// for.
#include "oom.h"

namespace {

constexpr size_t kMebi = size_t{1} << 20;
constexpr int kThreads = 4;
constexpr int kRounds = 3;

void* ExhaustTogether(void* argument) {
  const size_t first = reinterpret_cast<size_t>(argument);
  constexpr size_t kCount = sizeof(oom::kRequests) / sizeof(oom::kRequests[0]);
  for (size_t round = 0; round < kRounds * kCount; ++round) {
    const oom::Request& request = oom::kRequests[(first + round) % kCount];
    oom::Chain chain = oom::TakeAll(request, 512 * kMebi);
    oom::FreeAll(chain, request);
  }
  return nullptr;
}

void RunThreads() {
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], nullptr, ExhaustTogether, reinterpret_cast<void*>(i)) == 0);
  }
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  oom::ThreadsStartAndAllocate();
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) {
    RunThreads();
    return 0;
  }
  oom::RunLimited(RLIMIT_AS, 512 * kMebi, "from the start");
}
