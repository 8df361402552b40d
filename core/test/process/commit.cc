// What the kernel charges a process for under strict overcommit (vm.overcommit_memory=2): its
// writable private mappings. The charge follows what the process uses, in every mode, and no
// request is refused while the limit has room.
#include <malloc.h>

#include <vector>

#include "../check.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kMost = 256 * kMiB;
// Spans, page map and metadata for the first objects, and the libraries' data.
constexpr size_t kAtStart = 24 * kMiB;

size_t WritablePrivateBytes() {
  FILE* const file = fopen("/proc/self/maps", "r");
  CHECK(file != nullptr);
  size_t sum = 0, from = 0, to = 0;
  char rights[8];
  while (fscanf(file, "%zx-%zx %7s%*[^\n]", &from, &to, rights) == 3)
    if (rights[1] == 'w' && rights[3] == 'p') sum += to - from;
  fclose(file);
  return sum;
}

bool IsStrict() {
  FILE* const file = fopen("/proc/sys/vm/overcommit_memory", "r");
  if (file == nullptr) return false;
  const int mode = fgetc(file);
  fclose(file);
  return mode == '2';
}

size_t KilobytesOf(const char* name) {
  FILE* const file = fopen("/proc/meminfo", "r");
  CHECK(file != nullptr);
  char line[128];
  size_t found = 0;
  while (fgets(line, sizeof line, file) != nullptr)
    if (strncmp(line, name, strlen(name)) == 0) found = strtoull(line + strlen(name), nullptr, 10);
  fclose(file);
  return found;
}

// What may be committed: all of kMost, or half of what the kernel still grants.
size_t Room() {
  if (!IsStrict()) return kMost;
  const size_t limit = KilobytesOf("CommitLimit:"), used = KilobytesOf("Committed_AS:");
  CHECK(limit > used);
  const size_t half = (limit - used) * 1024 / 2;
  return half < kMost ? half : kMost;
}

// A block that fills little more than half of its regions of 2 MiB is charged for all of them.
struct Row {
  size_t block, percent;
};

void NothingIsRefused(const Row& row, size_t room) {
  const size_t before = WritablePrivateBytes();
  std::vector<void*> blocks;
  blocks.reserve(room / row.block);
  while (blocks.size() < room / row.block) {
    blocks.push_back(Hide(malloc(row.block)));
    CHECK(blocks.back() != nullptr);
  }
  CHECK(WritablePrivateBytes() < before + room / 100 * row.percent + kAtStart);
  for (void* p : blocks) free(p);
  malloc_trim(0);
}

void RefusedIsSaid() {
  const size_t beyond = (KilobytesOf("CommitLimit:") + 1024 * 1024) * 1024;
  errno = 0;
  CHECK(Hide(malloc(beyond)) == nullptr && errno == ENOMEM);
  void* const p = Hide(malloc(kMiB));
  CHECK(p != nullptr);
  free(p);
}

}  // namespace

int main() {
  free(Hide(malloc(100)));
  CHECK(WritablePrivateBytes() < kAtStart);
  const size_t room = Room();
  for (const Row& row : {Row{1000, 110}, Row{kMiB + 100000, 200}, Row{8 * kMiB, 110}})
    NothingIsRefused(row, room);
  if (IsStrict()) RefusedIsSaid();
}
