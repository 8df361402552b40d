// A program of one thread that forbids itself every system call but those of its output: it may
// free its objects, and exit must make no other system call, or the buffered output is lost.
#include "churn.h"
#include "system_call_filter.h"

namespace {

// exit, not _exit: the handlers of the library and of stdio run.
[[noreturn]] void SayAndExit(int to, uint32_t action) {
  static Churn<300, 12> churn(1);
  churn.Steps(20000);
  CHECK(dup2(to, STDOUT_FILENO) == STDOUT_FILENO);
  fputs(kText, stdout);
  ForbidAllBut({SYS_write, SYS_exit_group}, action);
  churn.Clear();
  exit(0);
}

}  // namespace

int main() { ExpectTextUnderFilters(SayAndExit); }
