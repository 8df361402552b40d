// counts LIBRARY PROGRAM...: runs the program with the library preloaded ("-": none) and prints on
// one line what the kernel counted for all its threads: page faults, system calls, calls of futex,
// and times that a thread waited or was replaced.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct Row {
  const char* name;
  uint32_t type;
  uint64_t config;
  const char* point;  // a tracepoint
  int file;
};

static struct Row rows[] = {
    {"faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, NULL, -1},
    {"calls", PERF_TYPE_TRACEPOINT, 0, "raw_syscalls/sys_enter", -1},
    {"futex", PERF_TYPE_TRACEPOINT, 0, "syscalls/sys_enter_futex", -1},
    {"switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, NULL, -1},
};
enum { kRows = sizeof rows / sizeof rows[0] };

static void Fail(const char* what) {
  perror(what);
  exit(1);
}

static uint64_t NumberOf(const char* point) {
  char path[200];
  snprintf(path, sizeof path, "/sys/kernel/tracing/events/%s/id", point);
  FILE* const file = fopen(path, "r");
  unsigned long number = 0;
  if (file == NULL || fscanf(file, "%lu", &number) != 1) Fail(path);
  fclose(file);
  return number;
}

// The plugin knows these by address: what runs between them is counted.
__attribute__((noinline, noclone)) void CountsBegin(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline, noclone)) void CountsEnd(void) { __asm__ volatile("" ::: "memory"); }

static void Open(struct Row* row, pid_t process) {
  struct perf_event_attr event = {.size = sizeof event, .type = row->type};
  event.config = row->point != NULL ? NumberOf(row->point) : row->config;
  event.inherit = event.disabled = event.enable_on_exec = 1;
  row->file = (int)syscall(SYS_perf_event_open, &event, process, -1, -1, 0);
  if (row->file < 0) Fail("perf_event_open");
}

// `NAME=cpus` becomes the number of CPUs.
static void Replace(char** word) {
  const char* const value = strchr(*word, '=');
  char* changed;
  if (value == NULL || strcmp(value, "=cpus") != 0) return;
  const int length = (int)(value - *word);
  if (asprintf(&changed, "%.*s=%ld", length, *word, sysconf(_SC_NPROCESSORS_ONLN)) < 0)
    Fail("asprintf");
  *word = changed;
}

// The first call leaves a process that keeps the counters on until the machine ends. The kernel
// patches its own code when the first counter comes or the last one goes, a second late; with many
// CPUs that run this code meanwhile, an emulated kernel crashed (int3).
static void KeepOn(void) {
  const int first = open("/tmp/counts.kept", O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (first < 0) return;
  close(first);
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) Fail("the pipe");
  if (fork() == 0) {
    close(ready[0]);
    for (int i = 0; i < kRows; ++i) Open(&rows[i], getpid());
    close(ready[1]);
    for (;;) pause();
  }
  close(ready[1]);
  char none;
  if (read(ready[0], &none, 1) != 0) Fail("the pipe");
  close(ready[0]);
  sleep(2);
}

// Becomes the program as soon as the pipe is closed.
static void Child(int pipe_end, const char* library, char** command) {
  char none;
  if (read(pipe_end, &none, 1) != 0) Fail("the pipe");
  for (char** word = command; *word != NULL; ++word) Replace(word);
  if (strcmp(library, "-") != 0) setenv("LD_PRELOAD", library, 1);
  execv(command[0], command);
  Fail(command[0]);
}

static void Print(FILE* console, const char* library, const char* program) {
  fprintf(console, "@@counts %s %s", program, library);
  for (int i = 0; i < kRows; ++i) {
    uint64_t value = 0;
    if (read(rows[i].file, &value, sizeof value) != sizeof value) Fail(rows[i].name);
    fprintf(console, " %s=%llu", rows[i].name, (unsigned long long)value);
  }
  fprintf(console, "\n");
}

int main(int argc, char** argv) {
  if (argc < 3) return fprintf(stderr, "usage: counts LIBRARY PROGRAM...\n"), 2;
  FILE* const console = fopen("/dev/console", "w");
  KeepOn();
  int ends[2];
  if (console == NULL || pipe2(ends, O_CLOEXEC) != 0) Fail("/dev/console");
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    Child(ends[0], argv[1], argv + 2);
  }
  for (int i = 0; i < kRows; ++i) Open(&rows[i], child);
  CountsBegin();
  close(ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  CountsEnd();
  if (status != 0) return fprintf(stderr, "%s ended with %#x\n", argv[2], (unsigned)status), 1;
  Print(console, argv[1], strrchr(argv[2], '/') + 1);
  return 0;
}
