/* A program whose heap the tests read. holder MODE: builds a heap of all kinds of objects, writes
 * what malloc_info says of it to stdout, then does as MODE says. */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBlocks = 40000 };
static void* blocks[kBlocks];
static char buffer[1 << 16];

static uint64_t Random(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static void Build(void) {
  uint64_t random = 1;
  for (int i = 0; i < kBlocks; ++i) {
    const uint64_t kind = Random(&random) % 1000;
    size_t size = Random(&random) % 600;
    if (kind < 100) size = Random(&random) % 20000;
    if (kind < 5) size = 70000 + Random(&random) % 800000;
    blocks[i] = kind < 2 ? calloc(1, size) : malloc(size);
    if (blocks[i] == NULL) abort();
    memset(blocks[i], 1, size);
  }
  blocks[0] = realloc(blocks[0], 3 << 20);
  blocks[1] = realloc(blocks[1], (5 << 20) + 12345);
  blocks[2] = malloc((2 << 20) + 100);
  if (blocks[0] == NULL || blocks[1] == NULL || blocks[2] == NULL) abort();
  for (int i = 3; i < kBlocks; i += 3) {
    free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void* Churn(void* seed) {
  uint64_t random = (uintptr_t)seed;
  void* mine[64] = {0};
  for (;;) {
    void** slot = &mine[Random(&random) % 64];
    free(*slot);
    *slot = malloc(Random(&random) % (Random(&random) % 50 == 0 ? 300000 : 2000));
  }
  return NULL;
}

static void Storm(int threads) {
  pthread_t thread;
  for (int i = 0; i < threads; ++i) pthread_create(&thread, NULL, Churn, (void*)(uintptr_t)(i + 1));
}

/* Enough for a background thread, and then free. */
static void Grow(void) {
  enum { kMany = 60000 };
  static void* many[kMany];
  for (int i = 0; i < kMany; ++i) many[i] = memset(malloc(1500), 1, 1500);
  for (int i = 0; i < kMany; ++i) free(many[i]);
  for (int i = 0; i < kMany; ++i) many[i] = malloc(100 + i % 100);
}

static void Say(void) {
  malloc_info(0, stdout);
  fputs("ready\n", stdout);
  fflush(stdout);
}

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "wait";
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  blocks[0] = malloc(100);
  if (strstr(mode, "small") == NULL) Build();
  if (strcmp(mode, "storm") == 0) Storm(64);
  if (strstr(mode, "helper") != NULL) Grow();
  if (strcmp(mode, "fork") == 0 && fork() != 0) return wait(NULL) < 0;
  Say();
  if (strcmp(mode, "abort") == 0) abort();
  if (strncmp(mode, "stop", 4) == 0) raise(SIGSTOP);
  for (;;) pause();
}
