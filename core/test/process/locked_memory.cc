// A process that locks its memory: its resident memory is what it uses, not what the heap reserves.
// Memory that the kernel refuses to purge is cleared, without touching memory that was never used.
#include <malloc.h>
#include <sys/mman.h>

#include "../child.h"
#include "../resident.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBlock = 1024 * kMiB, kTouched = kMiB;

void LocksAll() {
  free(malloc(100));
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) SkipTest("memory cannot be locked here.");
  CHECK(ResidentBytes() < 32 * kMiB);
  static void* objects[1000];
  for (void*& object : objects) {
    object = malloc(10000);
    CHECK(object != nullptr);
    memset(object, 1, 10000);
  }
  if (ResidentBytes() >= 64 * kMiB) fprintf(stderr, "%zu MiB resident\n", ResidentBytes() / kMiB);
  CHECK(ResidentBytes() < 64 * kMiB);
  for (void* object : objects) free(object);
}

void LocksWhatItTouches() {
  if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0)
    SkipTest("memory cannot be locked on its first touch here.");
  for (int round = 0; round < 2; ++round) {
    char* const block = static_cast<char*>(Hide(malloc(kBlock)));
    CHECK(block != nullptr);
    memset(block + kBlock / 2, 1, kTouched);
    free(block);
    malloc_trim(0);
    CHECK(ResidentBytes() < 64 * kMiB);
    char* const zeros = static_cast<char*>(Hide(calloc(1, kBlock)));
    CHECK(zeros != nullptr && AllZero(zeros + kBlock / 2, kTouched));
    free(zeros);
  }
}

}  // namespace

int main() {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    LocksAll();
    _exit(0);
  }
  const int status = WaitFor(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitSkipped) return kExitSkipped;
  ExpectCleanEnd(status);
  LocksWhatItTouches();
}
