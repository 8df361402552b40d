// memalign takes memory again that was freed: objects of the same request, an aligned object among
// others, and large objects among live ones, in the main thread and in another.
#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>
#include <vector>

#include "../check.h"

namespace {

void* Aligned(size_t alignment, size_t size) {
  void* block = memalign(HideSize(alignment), size);
  CHECK(block != nullptr && IsAligned(block, alignment));
  return block;
}

// A request for the whole usable size is served by the same objects.
void FreedObjectsComeBack(size_t alignment, size_t size) {
  std::set<void*> seen;
  for (int i = 0; i < 500; ++i) {
    void* first = Aligned(alignment, size);
    const size_t usable = malloc_usable_size(first);
    free(first);
    void* second = Aligned(alignment, usable);
    CHECK(malloc_usable_size(second) == usable);
    free(second);
    seen.insert(first);
    seen.insert(second);
  }
  CHECK(seen.size() <= 128);
}

void AnAlignedObjectIsFoundAmongOthers() {
  std::vector<void*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(i == 4 ? Aligned(64, 256) : malloc(256));
  for (void* block : blocks) free(block);
  std::vector<void*> again(100);
  for (void*& block : again) block = Aligned(64, 256);
  CHECK(std::find_first_of(again.begin(), again.end(), blocks.begin(), blocks.end()) !=
        again.end());
  for (void* block : again) free(block);
}

void FreedLargeObjectsAreTaken() {
  const size_t sizes[] = {23450, 23450, 23550, 23550, 23650, 23650, 33650, 33650};
  std::vector<void*> freed, between, taken;
  for (size_t size : sizes) {
    freed.push_back(Aligned(64, size));
    between.push_back(malloc(512));
  }
  for (void* block : freed) free(block);
  between.push_back(malloc(60000));
  for (size_t size : sizes) taken.push_back(Aligned(64, size));
  const auto again = std::count_if(taken.begin(), taken.end(), [&freed](void* block) {
    return std::find(freed.begin(), freed.end(), block) != freed.end();
  });
  CHECK(again > 4);
  for (void* block : taken) free(block);
  for (void* block : between) free(block);
}

void* All(void*) {
  for (const auto& [size, alignment] :
       {std::pair<size_t, size_t>{24, 32}, {24, 64}, {128, 128}, {500, 128}}) {
    FreedObjectsComeBack(alignment, size);
  }
  AnAlignedObjectIsFoundAmongOthers();
  FreedLargeObjectsAreTaken();
  return nullptr;
}

}  // namespace

int main() {
  if (OnSystemHeap()) return 0;
  All(nullptr);
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, All, nullptr) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
}
