// RLIMIT_AS, set before the program starts and lowered while it runs: null and ENOMEM, no damage,
// and everything works again once memory is free.
#include "oom.h"

namespace {

constexpr size_t kMebi = size_t{1} << 20;
constexpr size_t kBefore = 384 * kMebi, kLow = 200 * kMebi;

// The address space of freed blocks serves one large block.
int HalfIsServedAfterFrees(size_t size) {
  oom::Chain chain = oom::TakeAll({size, 0}, 2 * kLow);
  CHECK(chain.refused);
  oom::FreeAll(chain, {size, 0});
  void* const half = malloc(kLow / 2);
  CHECK(half != nullptr);
  free(half);
  return 0;
}

// At the end a new thread stack must fit too: the heap leaves memory to the rest of the process.
int UnderTheLimit() {
  oom::RunAll(2 * kBefore, true);
  if (!OnSystemHeap()) oom::ThreadsStartAndAllocate(256 << 10);
  return 0;
}

// An allocator may own address space that it reserved before the limit was set, so it need not
// reach the limit here. Memory that it returns must be usable all the same.
void LoweredWhileRunning() {
  oom::Limit(RLIMIT_AS, oom::StatusBytes("VmSize:") + 64 * kMebi);
  oom::RunAll(256 * kMebi, false);
  oom::Limit(RLIMIT_AS, kMebi);
  for (const oom::Request& request : oom::kRequests) {
    oom::Chain chain = oom::TakeAll(request, 64 * kMebi);
    oom::FreeAll(chain, request);
  }
  oom::Limit(RLIMIT_AS, RLIM_INFINITY);
  oom::ExhaustAndRecover({1000, 0}, 128 * kMebi, false);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const size_t size = strtoul(argv[1], nullptr, 10);
    return size > 0 ? HalfIsServedAfterFrees(size) : UnderTheLimit();
  }
  if (!OnSystemHeap()) oom::RunLimited(RLIMIT_AS, kLow, "5000000");
  oom::RunLimited(RLIMIT_AS, kBefore, "from the start");
  LoweredWhileRunning();
  oom::ThreadsStartAndAllocate();
}
