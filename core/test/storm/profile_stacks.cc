// Sampling starts and stops while 64 threads allocate from stacks of every kind: deep stacks,
// coroutines, exceptions in flight, inside dlopen, in ending threads and forked children,
// interrupted by signals. No stack walk crashes, blocks, or returns nothing.
#include <dlfcn.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <stdexcept>
#include <string>

#include "../child.h"
#include "granary/profile.h"
#include "storm.h"

#pragma weak granary_profile_start
#pragma weak granary_profile_stop
#pragma weak granary_profile_stack_at

namespace {

constexpr size_t kThreads = 64;
const storm::Deadline* g_deadline = nullptr;
size_t g_cycles, g_stacks, g_frames;  // of thread 0
std::atomic<bool> g_ended{false};
pthread_t g_threads[kThreads];
pthread_barrier_t g_all_started, g_all_ended;

void Use(uint64_t* random) {
  storm::Block block = storm::Allocate(random, 13);
  storm::Release(block);
}

__attribute__((noinline)) void Deep(uint64_t* random, int depth) {
  char local[64];
  memset(local, depth, sizeof local);
  Use(random);
  if (depth > 0) Deep(random, depth - 1);
  Use(random);
  Hide(local);
}

__attribute__((noinline)) void Throw(uint64_t* random, int depth) {
  const std::string text(40 + NextRandom(random) % 100, 'x');
  if (depth == 0) throw std::runtime_error(text);
  Throw(random, depth - 1);
  Hide(text.data());
}

void ThrowAndCatch(uint64_t* random) {
  try {
    Throw(random, 10);
  } catch (std::runtime_error& thrown) {
    CHECK(thrown.what()[0] == 'x');
  }
}

struct Coroutine {
  ucontext_t outer, inner;
  uint64_t random;
};

void RunCoroutine(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Coroutine*>(static_cast<uintptr_t>(high) << 32 | low);
  Deep(&self->random, 8);
  swapcontext(&self->inner, &self->outer);
  Deep(&self->random, 8);
}

// The stack of this coroutine is a block of the heap.
void SwitchStacks(uint64_t* random) {
  constexpr size_t kBytes = 1 << 16;
  Coroutine coroutine;
  coroutine.random = NextRandom(random);
  CHECK(getcontext(&coroutine.inner) == 0);
  coroutine.inner.uc_stack.ss_sp = malloc(kBytes);
  coroutine.inner.uc_stack.ss_size = kBytes;
  coroutine.inner.uc_link = &coroutine.outer;
  const auto self = reinterpret_cast<uintptr_t>(&coroutine);
  makecontext(&coroutine.inner, reinterpret_cast<void (*)()>(RunCoroutine), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  CHECK(swapcontext(&coroutine.outer, &coroutine.inner) == 0);
  Deep(random, 2);
  CHECK(swapcontext(&coroutine.outer, &coroutine.inner) == 0);
  free(coroutine.inner.uc_stack.ss_sp);
}

// No other thread uses these libraries, so that dlclose really unloads them.
void LoadAndUnload(uint64_t* random) {
  const char* const names[] = {"libresolv.so.2", "libutil.so.1", "libanl.so.1", "libcrypt.so.1"};
  void* const handle = dlopen(names[NextRandom(random) % 4], RTLD_NOW);
  if (handle != nullptr) dlclose(handle);
}

void* ShortLife(void* random) {
  Deep(static_cast<uint64_t*>(random), 5);
  return nullptr;
}

void StartThread(uint64_t* random) {
  pthread_t thread;
  uint64_t other = NextRandom(random);
  CHECK(pthread_create(&thread, nullptr, ShortLife, &other) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
}

void Fork(uint64_t* random) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    EndIfStuck();
    Deep(random, 5);
    ThrowAndCatch(random);
    _exit(0);
  }
  ExpectCleanChild(child);
}

void Switch(uint64_t* random) {
  CHECK(granary_profile_start(size_t{256} << NextRandom(random) % 10, NextRandom(random)) == 0);
  usleep(static_cast<useconds_t>(NextRandom(random) % 3000));
  granary_profile_stack stack;
  for (size_t i = 0; granary_profile_stack_at(i, &stack, sizeof stack) == 0; ++i) {
    CHECK(stack.depth > 0);
    ++g_stacks;
    g_frames += stack.depth;
  }
  granary_profile_stop();
  ++g_cycles;
}

void DoOne(size_t index, uint64_t* random) {
  if (index == 0) return Switch(random);
  if (index == 1) return LoadAndUnload(random);
  if (index == 2 && NextRandom(random) % 32 == 0) return Fork(random);
  if (index == 3) return StartThread(random);
  CHECK(pthread_kill(g_threads[NextRandom(random) % kThreads], SIGUSR2) == 0);
  switch (NextRandom(random) % 4) {
    case 0:
      return ThrowAndCatch(random);
    case 1:
      return SwitchStacks(random);
    default:
      return Deep(random, static_cast<int>(NextRandom(random) % 40));
  }
}

void Run(size_t index, uint64_t random) {
  g_threads[index] = pthread_self();
  pthread_barrier_wait(&g_all_started);
  while (!g_ended) {
    DoOne(index, &random);
    // On a slow machine no profile may have a stack by then.
    if (index == 0 && g_deadline->Passed() && g_stacks > 0) g_ended = true;
  }
  pthread_barrier_wait(&g_all_ended);
}

}  // namespace

int main(int argc, char** argv) {
  if (&granary_profile_start == nullptr) SkipTest("this process does not run on Granary.");
  const storm::Options options = storm::ParseOptions(argc, argv);
  struct sigaction action = {};
  action.sa_handler = [](int) {
    char text[100];
    Hide(memset(text, 1, sizeof text));
  };
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGUSR2, &action, nullptr) == 0);
  CHECK(pthread_barrier_init(&g_all_started, nullptr, kThreads) == 0);
  CHECK(pthread_barrier_init(&g_all_ended, nullptr, kThreads) == 0);
  const storm::Deadline deadline(options.seconds);
  g_deadline = &deadline;
  storm::RunThreads(kThreads, options.seed, Run);
  CHECK(g_cycles > 0 && g_stacks > 0);
  printf("%zu times on and off, %zu stacks of %.1f frames\n", g_cycles, g_stacks,
         static_cast<double>(g_frames) / static_cast<double>(g_stacks));
}
