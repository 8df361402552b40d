// A program of one thread that forbids itself every system call but those of its output: it may
// free what it has, and exit must call nothing new, or the output that is still buffered is lost.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "../child.h"
#include "churn.h"

namespace {

constexpr const char* kText = "what the program had to say\n";

sock_filter Allow(int number) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1);
}

void Forbid(uint32_t action) {
  const sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      Allow(SYS_write),
      allow,
      Allow(SYS_exit_group),
      allow,
      BPF_STMT(BPF_RET | BPF_K, action),
  };
  const sock_fprog program{sizeof rules / sizeof rules[0], const_cast<sock_filter*>(rules)};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(kExitSkipped);
}

// exit, not _exit: the handlers of the library and of stdio run.
[[noreturn]] void SayAndExit(int to, uint32_t action) {
  static Churn<300, 12> churn(1);
  churn.Steps(20000);
  CHECK(dup2(to, STDOUT_FILENO) == STDOUT_FILENO);
  fputs(kText, stdout);
  Forbid(action);
  churn.Clear();
  exit(0);
}

void ExpectTheText(uint32_t action) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) SayAndExit(ends[1], action);
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
