// While tasks of the machine wait for memory, unused memory is purged immediately, whatever the
// decay time. The pressure is real: a child reads a file at random in a cgroup that holds two
// thirds of it.
#include <sys/mman.h>

#include "cgroup.h"
#include "granary/granary.h"
#include "oom.h"

#pragma weak granary_set_options

namespace {

constexpr size_t kMebi = size_t{1} << 20;
constexpr size_t kFile = 48 * kMebi;
constexpr size_t kGroup = 32 * kMebi;
constexpr size_t kGarbage = 96 * kMebi;
constexpr double kEnough = 12;  // percent of ten seconds; the heap reacts from 10 on

double Stalls() {
  char text[256] = {};
  const int file = open("/proc/pressure/memory", O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  const bool read_some = read(file, text, sizeof(text) - 1) > 0;
  close(file);
  double percent;
  return read_some && sscanf(text, "some avg10=%lf", &percent) == 1 ? percent : -1;
}

int MakeFile() {
  char name[] = "/tmp/granary-pressure-XXXXXX";
  const int file = mkstemp(name);
  CHECK(file >= 0);
  unlink(name);
  static char block[kMebi];
  memset(block, 1, sizeof(block));
  for (size_t i = 0; i < kFile / kMebi; ++i) CHECK(write(file, block, kMebi) == kMebi);
  CHECK(fsync(file) == 0);
  return file;
}

int Thrash(int file) {
  const auto* const at = static_cast<char*>(mmap(nullptr, kFile, PROT_READ, MAP_PRIVATE, file, 0));
  CHECK(at != MAP_FAILED);
  CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
  uint64_t random = 1;
  volatile char sum = 0;
  for (;;) {
    if (getppid() == 1) return 0;
    for (int i = 0; i < 1000; ++i) sum = sum + at[NextRandom(&random) % kFile];
  }
}

void LeaveGarbage() {
  static void* blocks[kGarbage / 3000];
  for (void*& p : blocks) p = memset(malloc(3000), 1, 3000);
  for (void* p : blocks) free(p);
}

// Makes calls of the slow path now and then: an idle process does not read the pressure.
void UseALittle() {
  for (size_t size = 64; size <= 32768; size *= 2) {
    void* blocks[64];
    for (void*& p : blocks) p = malloc(size);
    for (void* p : blocks) free(p);
  }
  usleep(20000);
}

bool WaitUntil(bool (*done)(), int tenths) {
  for (int i = 0; i < tenths * 5; ++i) {
    if (done()) return true;
    UseALittle();
  }
  return false;
}

}  // namespace

int main() {
  if (OnSystemHeap() || &granary_set_options == nullptr) SkipTest("the rule is Granary's own.");
  if (Stalls() < 0) SkipTest("this kernel reports no memory pressure.");
  // The background thread would read the pressure itself. Without it the slow paths must.
  CHECK(granary_set_options("dirty_decay_ms:3600000") == 0);
  LeaveGarbage();
  CHECK(oom::StatusBytes("VmRSS:") > kGarbage);
  TestGroup group(kGroup);
  const int file = MakeFile();
  const pid_t child = group.Start([file] { return Thrash(file); });
  const bool stalled = WaitUntil([] { return Stalls() > kEnough; }, 300);
  const bool released =
      stalled && WaitUntil([] { return oom::StatusBytes("VmRSS:") < 48 * kMebi; }, 50);
  kill(child, SIGKILL);
  group.End(child);
  if (!stalled) SkipTest("the machine never waited for memory.");
  CHECK(released);
}
