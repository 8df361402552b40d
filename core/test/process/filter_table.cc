// A program of several threads that forbids itself every system call but those of
// os/system_calls.def and those that it makes itself: it allocates, frees, trims, forks and exits
// as without the filter.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "../child.h"
#include "churn.h"

namespace {

constexpr const char* kText = "what the program had to say\n";

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
constexpr size_t kCount = sizeof kAllowed / sizeof kAllowed[0];

void ForbidTheRest(uint32_t action) {
  sock_filter rules[2 * kCount + 2];
  size_t n = 0;
  rules[n++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (const int number : kAllowed) {
    rules[n++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1);
    rules[n++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  rules[n++] = BPF_STMT(BPF_RET | BPF_K, action);
  const sock_fprog program{static_cast<unsigned short>(n), rules};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(kExitSkipped);
}

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
  ForbidTheRest(action);
  pthread_t threads[3];
  for (size_t i = 0; i < 3; ++i) {
    CHECK(pthread_create(&threads[i], nullptr, Allocate, reinterpret_cast<void*>(i)) == 0);
  }
  for (int i = 0; i < 5; ++i) ForkOnce();
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  exit(0);
}

void ExpectTheText(uint32_t action) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) LiveAndExit(ends[1], action);
  close(ends[1]);
  char text[100] = "";
  const ssize_t size = read(ends[0], text, sizeof text - 1);
  const int status = WaitFor(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitSkipped) SkipTest("there are no filters.");
  ExpectCleanEnd(status);
  CHECK(size == static_cast<ssize_t>(strlen(kText)) && strcmp(text, kText) == 0);
  close(ends[0]);
}

}  // namespace

int main() {
  ExpectTheText(SECCOMP_RET_KILL_PROCESS);
  ExpectTheText(SECCOMP_RET_ERRNO | EPERM);
}
