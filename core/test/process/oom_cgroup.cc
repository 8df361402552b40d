// A memory cgroup without swap kills who passes its limit. A heap that fills two thirds of the
// limit with one size after another must therefore hand the pages from class to class, not collect
// them.
#include <sys/stat.h>

#include "../child.h"
#include "oom.h"

namespace {

constexpr size_t kMebi = size_t{1} << 20;
constexpr size_t kLimit = 96 * kMebi;
constexpr size_t kFill = 60 * kMebi;

char g_group[128];

void Put(const char* name, const char* value) {
  char path[256];
  snprintf(path, sizeof(path), "%s/%s", g_group, name);
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  CHECK(file >= 0);
  CHECK(write(file, value, strlen(value)) == static_cast<ssize_t>(strlen(value)));
  close(file);
}

// Version 1 has the controller in a tree of its own, version 2 has one tree for all.
const char* MakeGroup() {
  const char* const roots[][2] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                                  {"/sys/fs/cgroup", "memory.max"}};
  for (const auto& root : roots) {
    snprintf(g_group, sizeof(g_group), "%s/granary-test-%d", root[0], getpid());
    if (mkdir(g_group, 0755) != 0) continue;
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", g_group, root[1]);
    if (access(path, W_OK) == 0) return root[1];
    rmdir(g_group);
  }
  return nullptr;
}

constexpr size_t kSizes[] = {64, 200, 1000, 4096, 12000, 33000, 100000, 300000, 2000000, 20000000};

void FillAndTouch(size_t size) {
  oom::Chain chain;
  for (size_t bytes = 0; bytes + size <= kFill; bytes += size) {
    auto* link = static_cast<oom::Link*>(malloc(size));
    CHECK(link != nullptr);
    memset(static_cast<void*>(link), 1, size);
    *link = {chain.head, reinterpret_cast<size_t>(link) ^ size};
    chain.head = link;
  }
  oom::FreeAll(chain, {size, 0});
}

int LiveInside() {
  const bool keeps_small_blocks = OnSystemHeap();
  for (int round = 0; round < 2; ++round) {
    for (size_t size : kSizes) {
      if (size < 128 && keeps_small_blocks) continue;
      FillAndTouch(size);
    }
  }
  return 0;
}

}  // namespace

int main() {
  const char* limit_file = MakeGroup();
  if (limit_file == nullptr) SkipTest("no memory cgroup can be made here.");
  char text[32];
  snprintf(text, sizeof(text), "%zu", kLimit);
  Put(limit_file, text);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    EndIfStuck();
    snprintf(text, sizeof(text), "%d", getpid());
    Put("cgroup.procs", text);
    _exit(LiveInside());
  }
  const int status = WaitFor(child);
  rmdir(g_group);
  ExpectCleanEnd(status);
}
