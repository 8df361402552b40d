// A hard limit refuses allocations above it in every size, and allows them again once memory is
// free. A soft limit allows them, but purges unused memory.
#include "granary/granary.h"
#include "oom.h"

#pragma weak granary_set_options

namespace {

constexpr size_t kMebi = size_t{1} << 20;

void ExhaustAndRecoverBelow(size_t most) {
  for (const oom::Request& request : oom::kRequests) {
    oom::Chain chain = oom::TakeAll(request, 2 * most);
    CHECK(chain.refused && chain.count * request.size <= most);
    // A byte of each page is enough to make it resident. The limit includes all pages.
    CHECK(oom::StatusBytes("VmRSS:") < most + 16 * kMebi);
    oom::FreeAll(chain, request);
    oom::Chain again = oom::TakeAll(request, most / 3);
    CHECK(!again.refused);
    oom::FreeAll(again, request);
  }
}

void GrowBlocksUpTo(size_t most) {
  void* p = nullptr;
  size_t size = kMebi;
  for (void* q; (q = realloc(p, size)) != nullptr; size += kMebi) p = q;
  CHECK(errno == ENOMEM && size <= most + kMebi);
  free(p);
}

size_t FillAndFree(size_t bytes, size_t size) {
  oom::Chain chain = oom::TakeAll({size, 0}, bytes);
  CHECK(!chain.refused);
  for (oom::Link* link = chain.head; link != nullptr; link = link->next) {
    memset(reinterpret_cast<char*>(link) + sizeof(*link), 1, size - sizeof(*link));
  }
  oom::FreeAll(chain, {size, 0});
  return oom::StatusBytes("VmRSS:");
}

}  // namespace

int main() {
  if (OnSystemHeap() || &granary_set_options == nullptr) SkipTest("the limits are Granary's own.");
  CHECK(granary_set_options("hard_limit:100663296") == 0);
  ExhaustAndRecoverBelow(96 * kMebi);
  GrowBlocksUpTo(96 * kMebi);
  CHECK(granary_set_options("hard_limit:0,soft_limit:50331648,dirty_decay_ms:3600000") == 0);
  // The program may use more than the soft limit. Free memory is then purged before the heap grows.
  FillAndFree(96 * kMebi, 3000);
  usleep(600000);  // until the limits are read again
  constexpr size_t kSizes[] = {700, 5000, 100000, 3000000};
  for (const size_t size : kSizes) {
    CHECK(FillAndFree(40 * kMebi, size) < 64 * kMebi);
  }
  // A request that cannot be satisfied neither purges the heap nor changes the limit.
  const size_t held = FillAndFree(40 * kMebi, 3000000);
  CHECK(malloc(HideSize(size_t{1} << 62)) == nullptr);
  CHECK(oom::StatusBytes("VmRSS:") + 4 * kMebi > held);
  CHECK(FillAndFree(40 * kMebi, 700) < 64 * kMebi);
}
