// dies: (by the hook)
// A program that sets jemalloc's experimental.hooks.safety_check_abort gets the misuse report, and
// is aborted.
#include <jemalloc/jemalloc.h>

#include "../check.h"

#pragma weak mallctl

namespace {

void Hook(const char* report) {
  SayRaw(report, strlen(report));
  SayRaw(" (by the hook)\n", 15);
}

}  // namespace

int main() {
  void (*hook)(const char*) = Hook;
  CHECK(mallctl("experimental.hooks.safety_check_abort", nullptr, nullptr, &hook, sizeof hook) ==
        0);
  void* block = malloc(8 << 20);
  free(block);
  free(Hide(block));
}
