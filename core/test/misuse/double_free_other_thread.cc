// dies: granary: double free
// a block freed by the thread that made it and by another one.
#include <pthread.h>

#include "../check.h"

static void* FreeAgain(void* block) {
  free(block);
  return nullptr;
}

int main() {
  void* block = malloc(64);
  CHECK(block != nullptr);
  void* again = Hide(block);
  free(block);
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, FreeAgain, again) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
}
