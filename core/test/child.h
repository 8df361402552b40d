// Waits for children that check themselves, and says how one ended when it did not end well.
#ifndef GRANARY_TEST_CHILD_H_
#define GRANARY_TEST_CHILD_H_

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

// A child that hangs must not outlive the test that is ended for it.
inline void EndIfStuck() { alarm(120); }

inline int WaitFor(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

inline void ExpectCleanEnd(int status) {
  if (status == 0) return;
  fprintf(stderr, "a child %s %d\n",
          WIFSIGNALED(status) ? "was ended by signal" : "exited with status",
          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  CHECK(!"a child process failed");
}

inline void ExpectCleanChild(pid_t child) { ExpectCleanEnd(WaitFor(child)); }

#endif  // GRANARY_TEST_CHILD_H_
