// A background thread starts in a program that has made a thread, even one that never allocates,
// and empties the caches of an idle heap. A program without threads has none at this size.
#include <dirent.h>

#include <thread>
#include <vector>

#include "../check.h"
#include "../resident.h"

#if defined(__GLIBC__)
extern "C" char __libc_single_threaded __attribute__((weak));
#endif

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kHeap = 24 * kMiB;  // above the size for a program with threads, below the size
                                     // for a program without threads

bool HasBackgroundThread() {
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks != nullptr);
  bool found = false;
  while (dirent* task = readdir(tasks)) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    FILE* comm = fopen(path, "r");
    if (comm == nullptr) continue;
    if (fgets(name, sizeof name, comm) != nullptr && strcmp(name, "granary\n") == 0) found = true;
    fclose(comm);
  }
  closedir(tasks);
  return found;
}

void FillAndFree() {
  std::vector<void*> objects;
  for (size_t done = 0; done < kHeap; done += 1000) {
    objects.push_back(memset(malloc(1000), 1, 1000));
  }
  for (void* object : objects) free(object);
}

}  // namespace

int main() {
#if !defined(__GLIBC__)
  return kExitSkipped;
#else
  if (&__libc_single_threaded == nullptr) return kExitSkipped;
  const size_t start = ResidentBytes();
  FillAndFree();
  CHECK(!HasBackgroundThread());
  std::thread silent([] { pause(); });
  FillAndFree();
  size_t rest = ~size_t{0};
  for (int wait = 0; wait < 1000 && rest > 4 * kMiB; ++wait) {
    usleep(10000);
    const size_t now = ResidentBytes();
    rest = now > start ? now - start : 0;
  }
  CHECK(HasBackgroundThread());
  CHECK(rest <= 4 * kMiB);
  _exit(0);
#endif
}
