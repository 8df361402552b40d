// A raw clone that shares memory and thread-local storage with a waiting parent, as vfork does. The
// child has no registration of its own with the kernel, and must still allocate and free.
#include <sched.h>
#include <sys/syscall.h>

#include "../child.h"
#include "churn.h"

namespace {

constexpr size_t kStack = 256 << 10;

void* g_from_child = nullptr;

int BeTheChild(void* from_parent) {
  CHECK(PatternHolds(from_parent, 5000, 6));
  free(from_parent);
  Churn<100, 17> churn(2);
  churn.Steps(20000);
  g_from_child = malloc(7000);
  CHECK(g_from_child != nullptr);
  FillPattern(g_from_child, 7000, 7);
  churn.Clear();
  syscall(SYS_exit_group, 0);
  return 0;
}

}  // namespace

int main() {
  char* stack = static_cast<char*>(malloc(kStack));
  CHECK(stack != nullptr);
  Churn<200, 17> mine(1);
  for (int round = 0; round < 50; ++round) {
    mine.Steps(200);
    void* block = malloc(5000);
    CHECK(block != nullptr);
    FillPattern(block, 5000, 6);
    const int child = clone(BeTheChild, stack + kStack, CLONE_VM | CLONE_VFORK | SIGCHLD, block);
    CHECK(child > 0);
    ExpectCleanChild(child);
    CHECK(PatternHolds(g_from_child, 7000, 7));
    free(g_from_child);
    mine.Steps(200);
  }
  mine.Clear();
  free(stack);
}
