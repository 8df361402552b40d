// Makes known calls when it is told to: see calls_test.go.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kSmall = 1000, kTemporary = 500, kRemote = 300, kLarge = 2 };
static void* volatile kept[kSmall + kLarge];
static void* volatile remote[kRemote];
static int start[2], done[2];
static char c;

static void* other(void* unused) {
  (void)read(start[0], &c, 1);
  for (int i = 0; i < kRemote; ++i) remote[i] = malloc(40);
  (void)write(done[1], &c, 1);
  (void)read(start[0], &c, 1);
  return unused;
}

__attribute__((noinline)) void small_site(void) {
  for (int i = 0; i < kSmall; ++i) kept[i] = malloc(100);
}
__attribute__((noinline)) void temporary_site(void) {
  for (int i = 0; i < kTemporary; ++i) {
    void* volatile p = malloc(5000);
    free(p);
  }
}

// Enough for a background thread, which switches sampling on while all other threads sleep.
static void grow(void) {
  enum { kMany = 60000 };
  static void* volatile many[kMany];
  for (int i = 0; i < kMany; ++i) many[i] = memset(malloc(1500), 1, 1500);
  for (int i = 0; i < kMany; ++i) free(many[i]);
}

int main(void) {
  pthread_t thread;
  grow();
  if (pipe(start) != 0 || pipe(done) != 0 || pthread_create(&thread, NULL, other, NULL) != 0)
    return 1;
  free(malloc(100));
  void* volatile before = malloc(100);
  (void)write(1, "ready\n", 6);
  (void)read(0, &c, 1);
  free(before);
  small_site();
  temporary_site();
  for (int i = 0; i < kLarge; ++i) kept[kSmall + i] = malloc(3 << 20);
  (void)write(start[1], &c, 1);
  (void)read(done[0], &c, 1);
  for (int i = 0; i < kRemote; ++i) free(remote[i]);
  (void)write(1, "done\n", 5);
  (void)read(0, &c, 1);
  return 0;
}
