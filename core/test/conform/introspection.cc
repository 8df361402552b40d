// mallinfo, mallinfo2, mallopt, malloc_trim, malloc_stats and malloc_info.
#include <malloc.h>
#include <pthread.h>

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

void Mallinfo2CountsSmallObjects() {
  std::vector<void*> blocks;
  size_t total = 0;
  blocks.reserve(20);
  const size_t before = mallinfo2().uordblks;
  for (size_t size = 160; size < 3200; size += 160) {
    blocks.push_back(malloc(size));
    total += size;
  }
  CHECK(mallinfo2().uordblks >= before + total);
  CHECK(sizeof(mallinfo2().arena) == sizeof(size_t));
  for (void* block : blocks) free(block);
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
  for (int parameter : {M_CHECK_ACTION, M_MMAP_MAX, M_MMAP_THRESHOLD, M_TOP_PAD}) {
    CHECK(mallopt(parameter, 64 << 10) == 1);
  }
  CHECK(mallopt(M_MXFAST, 0) == 1 && mallopt(M_TRIM_THRESHOLD, -1) == 1);
  if (!OnSystemHeap()) CHECK(mallopt(M_PERTURB, 0xa5) == 1);
  auto* block = static_cast<unsigned char*>(calloc(1, 1000));
  CHECK(block != nullptr && AllZero(block, 1000));
  free(block);
}

// Random objects are replaced, with a trim now and then: those that live keep their bytes.
void TrimLeavesLiveObjectsAlone() {
  std::vector<void*> blocks(2000);
  std::vector<size_t> sizes(blocks.size());
  uint64_t state = 4;
  for (int step = 0; step < 40000; ++step) {
    const size_t i = NextRandom(&state) % blocks.size();
    CHECK(PatternHolds(blocks[i], sizes[i], i));
    free(blocks[i]);
    blocks[i] = nullptr;
    sizes[i] = 0;
    if (NextRandom(&state) % 3 == 0) continue;
    const size_t size = RandomSize(&state, 18);
    blocks[i] = malloc(size);
    CHECK(blocks[i] != nullptr);
    sizes[i] = size;
    FillPattern(blocks[i], size, i);
    if (step % 1000 == 0) malloc_trim(step % 2000 == 0 ? 0 : 1 << 20);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    CHECK(PatternHolds(blocks[i], sizes[i], i));
    free(blocks[i]);
  }
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

pthread_barrier_t g_barrier;

void* HoldMany(void*) {
  std::vector<void*> blocks(400000);
  for (void*& block : blocks) block = malloc(40);
  pthread_barrier_wait(&g_barrier);
  pthread_barrier_wait(&g_barrier);
  for (void* block : blocks) free(block);
  return nullptr;
}

// malloc_info while four threads hold 64 MiB, and after they ended.
void InfoWhileThreadsHold() {
  pthread_t threads[4];
  CHECK(pthread_barrier_init(&g_barrier, nullptr, 5) == 0);
  for (pthread_t& thread : threads) {
    CHECK(pthread_create(&thread, nullptr, HoldMany, nullptr) == 0);
  }
  pthread_barrier_wait(&g_barrier);
  InfoIsXml();
  const size_t full = InUse();
  CHECK(full >= 60 * kMebi);
  pthread_barrier_wait(&g_barrier);
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  InfoIsXml();
  CHECK(InUse() <= full - 60 * kMebi);
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
  Mallinfo2CountsSmallObjects();
  MallinfoIsTheSameInInts();
  MalloptAcceptsEverything();
  TrimSaysWhetherItReleased();
  TrimLeavesLiveObjectsAlone();
  malloc_stats();
  InfoIsXml();
  InfoWhileThreadsHold();
  InfoRefusesOptions();
}
