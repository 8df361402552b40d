// Waits for children that check themselves, and reports how a child ended if it failed.
#ifndef GRANARY_TEST_CHILD_H_
#define GRANARY_TEST_CHILD_H_

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

// A child that hangs must not outlive the test that a timeout ends.
inline void EndIfStuck() { alarm(120); }

inline int WaitFor(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

// Runs `program` in a child; returns how the child ended, and what it wrote to stderr as text.
template <class Program>
int RunAndListen(Program program, char* text, size_t room) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    EndIfStuck();
    program();
    _exit(0);
  }
  close(ends[1]);
  size_t size = 0;
  for (ssize_t n; size + 1 < room && (n = read(ends[0], text + size, room - 1 - size)) > 0;) {
    size += static_cast<size_t>(n);
  }
  text[size] = 0;
  close(ends[0]);
  return WaitFor(child);
}

inline void ExpectCleanEnd(int status) {
  if (status == 0) return;
  fprintf(stderr, "a child %s %d\n",
          WIFSIGNALED(status) ? "was ended by signal" : "exited with status",
          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  CHECK(!"a child process failed");
}

// A setting of the environment, what this program does under it, and whether it must die.
struct Setting {
  const char *variable, *value, *what;
  bool dies;
};

// Runs this program again, with the action as its argument.
inline void ExpectUnder(const Setting& row) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    setenv(row.variable, row.value, 1);
    execl("/proc/self/exe", row.what, row.what, static_cast<char*>(nullptr));
    _exit(99);
  }
  const int status = WaitFor(child);
  const bool died = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  if (died == row.dies) return;
  fprintf(stderr, "%s=%s: status %x\n", row.variable, row.value, static_cast<unsigned>(status));
  CHECK(!"a setting had not the effect expected of it");
}

inline void ExpectCleanChild(pid_t child) { ExpectCleanEnd(WaitFor(child)); }

#endif  // GRANARY_TEST_CHILD_H_
