/* Counts the instructions of warm calls into the preloaded allocator, from the first instruction of
 * the function to its return, by single-stepping a child.
 *
 * A single step stops the thread, and the kernel then aborts a restartable sequence it was in. The
 * tracer forgets the sequence at each stop (it clears rseq_cs), so the child runs through it as it
 * would undisturbed; no other thread uses the cache of the child's CPU. */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kSize = 40, kWarmUp = 20000, kRepeats = 32, kMaxSteps = 100000 };

typedef void* (*Allocate)(size_t);
typedef void (*Release)(void*);
typedef void (*SizedRelease)(void*, size_t);
typedef void* (*Create)(const char*, size_t);
typedef void* (*HeapAllocate)(void*, size_t);
typedef void (*HeapRelease)(void*, void*);

struct calls {
  Allocate malloc;
  Release free;
  Allocate operator_new;
  Release operator_delete;
  SizedRelease operator_delete_sized;
  HeapAllocate heap_malloc;
  HeapRelease heap_free;
};

static void* heap;

/* What the child tells the tracer before it begins. */
struct plan {
  uintptr_t rseq_cs;
  struct calls calls;
};

static const char* const kNames[] = {
    "malloc(40)", "free", "new(40)", "delete", "delete(40)", "heap_malloc(40)", "heap_free"};
enum { kCalls = sizeof kNames / sizeof *kNames };

static void fail(const char* what) {
  fprintf(stderr, "fast_path: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void* look_up(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == NULL) {
    fprintf(stderr, "fast_path: %s is not defined; preload the library\n", name);
    exit(1);
  }
  return found;
}

static void call_each_once(const struct calls* calls) {
  void* volatile block = calls->malloc(kSize);
  calls->free(block);
  block = calls->operator_new(kSize);
  calls->operator_delete(block);
  block = calls->operator_new(kSize);
  calls->operator_delete_sized(block, kSize);
  block = calls->heap_malloc(heap, kSize);
  calls->heap_free(heap, block);
}

static void run_child(int channel) {
  const struct calls calls = {(Allocate)look_up("malloc"),
                              (Release)look_up("free"),
                              (Allocate)look_up("_Znwm"),
                              (Release)look_up("_ZdlPv"),
                              (SizedRelease)look_up("_ZdlPvm"),
                              (HeapAllocate)look_up("granary_heap_malloc"),
                              (HeapRelease)look_up("granary_heap_free")};
  heap = ((Create)look_up("granary_heap_create"))("counted", 0);
  struct plan plan = {0, calls};
  if (__rseq_size != 0) {
    struct rseq* area = (struct rseq*)((char*)__builtin_thread_pointer() + __rseq_offset);
    plan.rseq_cs = (uintptr_t)&area->rseq_cs;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  for (int i = 0; i < kWarmUp; i++) call_each_once(&calls);
  if (write(channel, &plan, sizeof plan) != sizeof plan) fail("write");
  if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) fail("ptrace");
  raise(SIGSTOP);
  for (int i = 0; i < kRepeats; i++) call_each_once(&calls);
  _exit(0);
}

static uintptr_t entry_of_call(const struct calls* calls, int index) {
  const uintptr_t entries[kCalls] = {(uintptr_t)calls->malloc,
                                     (uintptr_t)calls->free,
                                     (uintptr_t)calls->operator_new,
                                     (uintptr_t)calls->operator_delete,
                                     (uintptr_t)calls->operator_delete_sized,
                                     (uintptr_t)calls->heap_malloc,
                                     (uintptr_t)calls->heap_free};
  return entries[index];
}

/* Two names may share one function; the first stands for both. */
static int index_of_call(const struct calls* calls, uintptr_t address) {
  for (int i = 0; i < kCalls; i++) {
    if (entry_of_call(calls, i) == address) return i;
  }
  return -1;
}

/* Steps the child once; returns 0 when it has exited. */
static int step(pid_t child, const struct plan* plan) {
  int status;
  if (plan->rseq_cs != 0) ptrace(PTRACE_POKEDATA, child, plan->rseq_cs, 0);
  if (ptrace(PTRACE_SINGLESTEP, child, 0, 0) != 0) fail("ptrace");
  if (waitpid(child, &status, 0) < 0) fail("waitpid");
  return WIFSTOPPED(status);
}

/* The child stands at the first instruction of a call: counts until it has returned. */
static int count_call(pid_t child, const struct plan* plan, struct user_regs_struct* registers) {
  const uintptr_t top = registers->rsp;
  int count = 0;
  while (registers->rsp <= top && count < kMaxSteps) {
    if (!step(child, plan)) fail("the child ended within a call");
    ptrace(PTRACE_GETREGS, child, 0, registers);
    count++;
  }
  return count;
}

static void count_all(pid_t child, const struct plan* plan) {
  int least[kCalls] = {0};
  struct user_regs_struct registers;
  while (step(child, plan)) {
    ptrace(PTRACE_GETREGS, child, 0, &registers);
    int index;
    while ((index = index_of_call(&plan->calls, registers.rip)) >= 0) {
      const int count = count_call(child, plan, &registers);
      if (least[index] == 0 || count < least[index]) least[index] = count;
    }
  }
  for (int i = 0; i < kCalls; i++) {
    printf("%s\t%d\n", kNames[i],
           least[index_of_call(&plan->calls, entry_of_call(&plan->calls, i))]);
  }
}

int main(void) {
  int channel[2];
  if (pipe(channel) != 0) fail("pipe");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) run_child(channel[1]);
  struct plan plan;
  close(channel[1]);
  if (read(channel[0], &plan, sizeof plan) != sizeof plan) fail("the child did not begin");
  int status;
  if (waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status)) fail("the child did not stop");
  count_all(child, &plan);
  return 0;
}
