// Filters of system calls (seccomp) for programs that must print their buffered text at exit.
#ifndef GRANARY_TEST_SYSTEM_CALL_FILTER_H_
#define GRANARY_TEST_SYSTEM_CALL_FILTER_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "../child.h"

inline constexpr const char* kText = "what the program had to say\n";

// From here on, `action` meets every system call of this process but those in `allowed`.
template <size_t n>
void ForbidAllBut(const int (&allowed)[n], uint32_t action) {
  sock_filter rules[2 * n + 2];
  size_t count = 0;
  rules[count++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (const int number : allowed) {
    rules[count++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1);
    rules[count++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  rules[count++] = BPF_STMT(BPF_RET | BPF_K, action);
  const sock_fprog program{static_cast<unsigned short>(count), rules};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(kExitSkipped);
}

// Runs `print_and_exit(to, action)` in a child, whose output `to` must receive kText.
inline void ExpectText(void (*print_and_exit)(int to, uint32_t action), uint32_t action) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) print_and_exit(ends[1], action);
  close(ends[1]);
  char text[100] = "";
  const ssize_t size = read(ends[0], text, sizeof text - 1);
  const int status = WaitFor(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitSkipped) SkipTest("there are no filters.");
  ExpectCleanEnd(status);
  CHECK(size == static_cast<ssize_t>(strlen(kText)) && strcmp(text, kText) == 0);
  close(ends[0]);
}

// Under a filter that kills, then under one that refuses.
inline void ExpectTextUnderFilters(void (*print_and_exit)(int to, uint32_t action)) {
  ExpectText(print_and_exit, SECCOMP_RET_KILL_PROCESS);
  ExpectText(print_and_exit, SECCOMP_RET_ERRNO | EPERM);
}

#endif  // GRANARY_TEST_SYSTEM_CALL_FILTER_H_
