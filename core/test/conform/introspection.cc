// mallinfo, mallinfo2, mallopt, malloc_trim, malloc_stats and malloc_info.
#include <malloc.h>

#include <vector>

#include "../check.h"

namespace {

constexpr size_t kMebi = size_t{1} << 20;

// Only the sum matters: implementations may report large blocks as mmapped or as in use.
size_t InUse() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

void Mallinfo2FollowsTheLiveBytes() {
  std::vector<void*> blocks(32);
  const size_t before = InUse();
  for (void*& block : blocks) {
    block = malloc(kMebi);
    CHECK(block != nullptr);
    memset(block, 1, kMebi);
  }
  const size_t full = InUse();
  CHECK(full >= before + 30 * kMebi);
  CHECK(full <= before + 48 * kMebi);
  for (void* block : blocks) free(block);
  CHECK(InUse() <= before + 2 * kMebi);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
void MallinfoIsTheSameInInts() {
  void* block = malloc(10 * kMebi);
  CHECK(block != nullptr);
  const struct mallinfo info = mallinfo();
  CHECK(static_cast<size_t>(info.uordblks) + static_cast<size_t>(info.hblkhd) >= 10 * kMebi);
  free(block);
}
#pragma GCC diagnostic pop

void MalloptAcceptsEverything() {
  CHECK(mallopt(HideSize(999), 0) == 1);
  CHECK(mallopt(M_TRIM_THRESHOLD, 128 << 10) == 1);
  CHECK(mallopt(M_ARENA_MAX, 2) == 1);
}

void TrimSaysWhetherItReleased() {
  std::vector<void*> blocks(20000);
  for (void*& block : blocks) {
    block = malloc(1500);
    memset(block, 1, 1500);
  }
  for (void* block : blocks) free(block);
  const int released = malloc_trim(0);
  CHECK(released == 0 || released == 1);
  CHECK(malloc_trim(0) == 0 || malloc_trim(0) == 1);
  void* again = malloc(1500);
  CHECK(again != nullptr);
  memset(again, 2, 1500);
  free(again);
}

void InfoIsXml() {
  char* text = nullptr;
  size_t length = 0;
  FILE* stream = open_memstream(&text, &length);
  CHECK(stream != nullptr);
  CHECK(malloc_info(0, stream) == 0);
  CHECK(fclose(stream) == 0);
  const char* opening = "<malloc version=\"1\">";
  CHECK(strncmp(text, opening, strlen(opening)) == 0);
  CHECK(strstr(text, "</malloc>") != nullptr);
  free(text);
}

void InfoRefusesOptions() {
  FILE* stream = fopen("/dev/null", "w");
  CHECK(stream != nullptr);
  CHECK(malloc_info(1, stream) == EINVAL);
  fclose(stream);
}

}  // namespace

int main() {
  Mallinfo2FollowsTheLiveBytes();
  MallinfoIsTheSameInInts();
  MalloptAcceptsEverything();
  TrimSaysWhetherItReleased();
  malloc_stats();
  InfoIsXml();
  InfoRefusesOptions();
}
