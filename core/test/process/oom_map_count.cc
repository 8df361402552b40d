// vm.max_map_count: a program that has used up its mappings gets null or usable memory, never a
// crash.
#include <sys/mman.h>

#include <initializer_list>

#include "oom.h"

namespace {

constexpr size_t kMebi = size_t{1} << 20;
const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

size_t MapLimit() {
  char text[32] = {};
  const int file = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
  if (file < 0 || read(file, text, sizeof(text) - 1) <= 0)
    SkipTest("the mapping limit is unknown.");
  close(file);
  return strtoul(text, nullptr, 10);
}

// Every second page gets another protection, which splits the area into single-page mappings.
void SplitUntilRefused(char* area, size_t pages) {
  for (size_t page = 0; page < pages; page += 2) {
    if (mprotect(area + page * kPage, kPage, PROT_READ) != 0) {
      CHECK(errno == ENOMEM);
      return;
    }
  }
  SkipTest("the mapping limit could not be reached.");
}

void AllocateUnderPressure() {
  for (const oom::Request& request : oom::kRequests) {
    oom::Chain chain = oom::TakeAll(request, 64 * kMebi);
    oom::FreeAll(chain, request);
  }
  void* block = malloc(100000);
  for (size_t size = 100000; block != nullptr && size < 64 * kMebi; size *= 2) {
    void* moved = realloc(block, size);
    if (moved != nullptr) block = moved;
  }
  free(block);
}

// Unmapping or purging a part of a mapping needs one more of them, which the kernel refuses.
void FreeLeavesErrnoAtTheLimit() {
  for (size_t size : {size_t{64}, size_t{100} << 10, size_t{5318153}, size_t{16} << 20}) {
    void* block = malloc(HideSize(size));
    if (block == nullptr) continue;
    memset(block, 1, size);
    errno = EXDEV;
    free(block);
    CHECK(errno == EXDEV);
  }
}

}  // namespace

int main() {
  const size_t limit = MapLimit();
  if (limit > 1 << 20) SkipTest("the mapping limit is too high to reach in a test.");
  const size_t pages = limit * 2 + 4096;
  void* area =
      mmap(nullptr, pages * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(area != MAP_FAILED);
  SplitUntilRefused(static_cast<char*>(area), pages);
  FreeLeavesErrnoAtTheLimit();
  AllocateUnderPressure();
  CHECK(munmap(area, pages * kPage) == 0);
  oom::ExhaustAndRecover({1000, 0}, 64 * kMebi, false);
  oom::ExhaustAndRecover({3 << 20, 0}, 64 * kMebi, false);
  oom::ThreadsStartAndAllocate();
}
