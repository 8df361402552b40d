// lives:
// A write to an object of no bytes ends the program, at every place where one comes from.
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

namespace {

void RequireNoAccess(void* p) {
  CHECK(p != nullptr && malloc_usable_size(p) == 0);
  const pid_t child = fork();
  if (child == 0) {
    *static_cast<volatile char*>(p) = 'A';
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

}  // namespace

int main() {
  void* const p = malloc(HideSize(0));
  RequireNoAccess(p);
  void* const q = calloc(HideSize(0), 8);
  RequireNoAccess(q);
  CHECK(p != q);
  free(q);
  char* const array = new char[HideSize(0)];
  RequireNoAccess(array);
  delete[] array;
  char* const grown = static_cast<char*>(realloc(p, 100));
  memset(grown, 1, 100);
  free(grown);
}
