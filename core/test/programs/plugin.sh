#!/bin/sh
# A program on the C library's heap opens a plugin that libgranary.a is linked into, lets threads use
# its heap, and closes it: the plugin stays, with its background thread, its handlers for fork and
# the end of threads, and the areas that the kernel writes to for its threads.
set -eu
. "$(dirname "$0")/lib.inc"
need cc
archive=${GRANARY_BUILD:?}/lib/libgranary.a

cat >"$work/plugin.c" <<'C'
#include <stdlib.h>
#include <string.h>
int work(void) {
  static _Thread_local char *held[20];
  for (int i = 0; i < 4000; ++i) {
    char **p = &held[i % 20];
    free(*p);
    *p = malloc(60000);
    if (*p == NULL) return 1;
    memset(*p, i, 60000);
  }
  return 0;
}
C
cc -O1 -fno-builtin -fPIC -shared -o "$work/plugin.so" "$work/plugin.c" -Wl,-Bsymbolic \
  -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -pthread || fail 'the plugin does not link.'

cat >"$work/host.c" <<'C'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static int (*work)(void);
static pthread_barrier_t used, closed;
static void *use(void *unused) {
  if (work() != 0) _exit(2);
  pthread_barrier_wait(&used);
  pthread_barrier_wait(&closed);
  for (volatile int i = 0; i < 100000000; ++i) {}  // the kernel interrupts the thread here
  return unused;
}
int main(int count, char **path) {
  pthread_t threads[4];
  void *plugin = count == 2 ? dlopen(path[1], RTLD_NOW) : NULL;
  if (plugin == NULL) fprintf(stderr, "%s\n", dlerror());
  if (plugin == NULL || (work = (int (*)(void))dlsym(plugin, "work")) == NULL) return 3;
  pthread_barrier_init(&used, NULL, 5);
  pthread_barrier_init(&closed, NULL, 5);
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, use, NULL);
  pthread_barrier_wait(&used);
  if (dlclose(plugin) != 0) return 4;
  pthread_barrier_wait(&closed);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  usleep(300000);  // the background thread's turn
  pid_t child = fork();
  if (child == 0) return 0;
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) return 5;
  return puts("host done") < 0;
}
C
cc -O1 -o "$work/host" "$work/host.c" -pthread -ldl || fail 'the host does not compile.'
for tunables in '' glibc.pthread.rseq=0; do
  env GLIBC_TUNABLES="$tunables" "$work/host" "$work/plugin.so" >"$work/host.log" 2>&1 || fail "the host ended with $?."
  grep -q 'host done' "$work/host.log" || fail 'the host did not finish.'
done
