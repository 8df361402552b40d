// A program of several threads that forbids itself every system call but those of
// os/system_calls.def and those that it makes itself: it allocates, frees, trims, forks and exits
// as without the filter.
#include <malloc.h>
#include <pthread.h>

#include "churn.h"
#include "system_call_filter.h"

namespace {

const int kAllowed[] = {
#define SYSTEM_CALL(name, purpose) SYS_##name,
#include "../../src/os/system_calls.def"
#undef SYSTEM_CALL
    // The C library's, for threads, fork, wait and exit.
    SYS_clone,
#if defined(SYS_clone3)
    SYS_clone3,
#endif
    SYS_set_robust_list, SYS_wait4,        SYS_exit,  SYS_exit_group,
    SYS_clock_gettime,   SYS_brk,          SYS_prctl, SYS_newfstatat,
    SYS_getrandom,       SYS_rt_sigaction,
};

void* Allocate(void* seed) {
  Churn<300, 22> churn(reinterpret_cast<uint64_t>(seed));
  for (int i = 0; i < 10; ++i) {
    churn.Steps(300);
    malloc_trim(0);
  }
  void* growing = nullptr;
  for (size_t size = 1 << 16; size <= size_t{16} << 20; size *= 2) {
    growing = realloc(growing, size);
    CHECK(growing != nullptr);
    memset(growing, 1, size);
  }
  free(growing);
  return nullptr;
}

void ForkOnce() {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    Allocate(nullptr);
    _exit(0);
  }
  ExpectCleanChild(child);
}

[[noreturn]] void LiveAndExit(int to, uint32_t action) {
  CHECK(dup2(to, STDOUT_FILENO) == STDOUT_FILENO);
  setvbuf(stdout, nullptr, _IOFBF, 4096);
  fputs(kText, stdout);
  ForbidAllBut(kAllowed, action);
  pthread_t threads[3];
  for (size_t i = 0; i < 3; ++i) {
    CHECK(pthread_create(&threads[i], nullptr, Allocate, reinterpret_cast<void*>(i)) == 0);
  }
  for (int i = 0; i < 5; ++i) ForkOnce();
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  exit(0);
}

}  // namespace

int main() { ExpectTextUnderFilters(LiveAndExit); }
