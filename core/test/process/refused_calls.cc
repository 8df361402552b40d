// Each system call of os/system_calls.def is refused in turn, with three errors, while threads
// allocate: from then on allocations may fail, but no object is damaged, and what must be zero is.
#include <linux/audit.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>

#include "system_call_filter.h"

extern "C" int granary_set_options(const char* text) __attribute__((weak));

namespace {

struct Row {
  const char* name;
  int number;
};

constexpr Row kCalls[] = {
#define SYSTEM_CALL(name, purpose) {#name, SYS_##name},
#include "../../src/os/system_calls.def"
#undef SYSTEM_CALL
};

constexpr int kErrors[] = {EPERM, ENOMEM, ENOSYS};
constexpr size_t kThreads = 3, kBlocks = 120, kLogLargest = 22;
constexpr int kSteps = 1500;

std::atomic<size_t> g_half{0}, g_done{0};
std::atomic<bool> g_refused{false};

struct Block {
  char* p;
  size_t size;
  uint64_t seed;
};

void Release(Block& block) {
  if (block.p != nullptr) CHECK(PatternHolds(block.p, block.size, block.seed));
  free(block.p);
  block.p = nullptr;
}

void Replace(Block& block, uint64_t* random) {
  const size_t size = RandomSize(random, kLogLargest) + 1;
  const uint64_t choice = NextRandom(random) % 8;
  char* p;
  if (choice == 0 && block.p != nullptr) {
    p = static_cast<char*>(realloc(block.p, size));
    if (p == nullptr) return;
    CHECK(PatternHolds(p, size < block.size ? size : block.size, block.seed));
  } else {
    Release(block);
    p = static_cast<char*>(choice < 4 ? calloc(1, size) : malloc(size));
    if (p == nullptr) return;
    CHECK(choice >= 4 || AllZero(p, size));
  }
  block = {p, size, NextRandom(random)};
  FillPattern(p, size, block.seed);
}

void Work(uint64_t random, int steps) {
  static thread_local Block blocks[kBlocks];
  for (int i = 0; i < steps; ++i) {
    Replace(blocks[NextRandom(&random) % kBlocks], &random);
    if (i % 500 == 499) malloc_trim(0);
  }
  for (Block& block : blocks) Release(block);
}

// Not joined: the C library itself gives up where it may not wait.
void* Live(void* seed) {
  Work(reinterpret_cast<uint64_t>(seed), kSteps);
  ++g_half;
  while (!g_refused) sched_yield();
  Work(reinterpret_cast<uint64_t>(seed) + 100, kSteps);
  ++g_done;
  for (;;) pause();
}

// In all threads of the process.
void Refuse(int call, int error) {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof rules / sizeof rules[0], rules};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    _exit(kExitSkipped);
  }
}

void ForkOnce() {
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    Work(5, 200);
    _exit(0);
  }
  ExpectCleanChild(child);
}

[[noreturn]] void LiveThrough(const Row& call, int error) {
  EndIfStuck();
  granary_set_options("dirty_decay_ms:20");
  pthread_t thread;
  for (size_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&thread, nullptr, Live, reinterpret_cast<void*>(i)) == 0);
  }
  while (g_half < kThreads) sched_yield();
  Refuse(call.number, error);
  g_refused = true;
  ForkOnce();
  Work(9, kSteps);
  while (g_done < kThreads) sched_yield();
  exit(0);
}

}  // namespace

int main() {
  if (granary_set_options == nullptr) SkipTest("the calls are Granary's own.");
  size_t runs = 0;
  for (const Row& call : kCalls) {
    for (const int error : kErrors) {
      const pid_t child = fork();
      CHECK(child >= 0);
      if (child == 0) LiveThrough(call, error);
      const int status = WaitFor(child);
      if (WIFEXITED(status) && WEXITSTATUS(status) == kExitSkipped)
        SkipTest("there are no filters.");
      if (status != 0) fprintf(stderr, "%s refused with error %d:\n", call.name, error);
      ExpectCleanEnd(status);
      ++runs;
    }
  }
  printf("%zu refusals, no object damaged\n", runs);
}
