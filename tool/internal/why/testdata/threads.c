/* threads N: N threads that each hold some objects; then "ready". */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t all;

static void* Work(void* argument) {
  for (int i = 0; i < 100; ++i) {
    void* p = malloc(64 + i * 16);
    if (p == NULL) abort();
    memset(p, 1, 64);
    if (i % 3 == 0) free(p);
  }
  pthread_barrier_wait(&all);
  pause();
  return argument;
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 16;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 64 << 10);
  pthread_barrier_init(&all, NULL, threads + 1);
  for (int i = 0; i < threads; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &attr, Work, NULL) != 0) return 1;
  }
  pthread_barrier_wait(&all);
  puts("ready");
  fflush(stdout);
  pause();
}
