// Sampled guards: switched on in a running process, every invalid access is reported with
// the stacks, the program's own handler of SIGSEGV is called after that, and nothing stays behind
// when they are switched off.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>

#include <new>

#include "../child.h"

extern "C" int granary_set_options(const char* text) __attribute__((weak));

namespace {

constexpr size_t kSize = 40;
volatile char sink;

bool IsGuarded(const void* p) {
  const size_t at = reinterpret_cast<uintptr_t>(p) % 4096;
  return at == 0 || at == 4096 - 48;
}

// Objects of the pool are the only ones of this size at the start or end of a page for which
// malloc_usable_size returns the requested size.
char* Sampled() {
  for (int i = 0; i < 10000000; ++i) {
    char* const p = static_cast<char*>(Hide(malloc(kSize)));
    CHECK(p != nullptr);
    if (malloc_usable_size(p) == kSize && IsGuarded(p)) return p;
    free(p);
  }
  CHECK(!"one of ten million allocations of 40 bytes is a sample");
}

void WriteBeyond() {
  char* const p = Sampled();
  for (size_t i = kSize; i < 8192; ++i) static_cast<volatile char*>(p)[i] = 1;
}
void ReadFreed() {
  char* const p = Sampled();
  free(p);
  sink = *static_cast<volatile char*>(Hide(p));
}
void WriteFreed() {
  char* const p = Sampled();
  free(p);
  *static_cast<volatile char*>(Hide(p)) = 1;
}
void WriteMargin() {
  char* const p = Sampled();
  p[kSize] = 0;
  free(Hide(p));
}
void FreeTwice() {
  char* const p = Sampled();
  free(p);
  free(Hide(p));
}
void WrongSize() { ::operator delete(Hide(Sampled()), HideSize(kSize + 1)); }

[[noreturn]] void OwnHandler(int) {
  SayRaw("own handler\n", 12);
  _exit(42);
}

struct Case {
  void (*commit)();
  const char* text;
  int signal;
};

constexpr Case kCases[] = {
    {WriteBeyond, "beyond an object at 0x", SIGSEGV},
    {ReadFreed, "after free at 0x", SIGSEGV},
    {WriteFreed, "after free at 0x", SIGSEGV},
    {WriteMargin, "granary: write beyond an object, found by free", SIGABRT},
    {FreeTwice, "granary: double free at 0x", SIGABRT},
    {WrongSize, "sized free of 41 bytes", SIGABRT},
};

struct sigaction handler_before;

// Passes on to the handler that it replaced, as crash reporters do.
void Reporter(int signal, siginfo_t* info, void* context) {
  SayRaw("reporter\n", 9);
  handler_before.sa_sigaction(signal, info, context);
}

// Makes sure that guards know a handler that was installed after them.
void MeetHandler() {
  for (int i = 0; i < 20; ++i) free(Hide(Sampled()));
}

void ReadFreedUnderAReporter() {
  struct sigaction mine {};
  mine.sa_sigaction = Reporter;
  mine.sa_flags = SA_SIGINFO;
  CHECK(sigaction(SIGSEGV, &mine, &handler_before) == 0);
  MeetHandler();
  ReadFreed();
}

void ReadFreedUnderALaterHandler() {
  signal(SIGSEGV, OwnHandler);
  MeetHandler();
  ReadFreed();
}

// Runs `commit` in a child with guards; returns the child's status and what it wrote to stderr.
int Run(void (*commit)(), bool own_handler, char* text, size_t room) {
  const auto with_guards = [=] {
    if (own_handler) signal(SIGSEGV, OwnHandler);
    CHECK(granary_set_options("guard_sample:20000") == 0);
    commit();
  };
  return RunAndListen(with_guards, text, room);
}

void EachMisuseIsReported() {
  static char text[1 << 16];
  for (const Case& c : kCases) {
    const int status = Run(c.commit, false, text, sizeof text);
    if (strstr(text, c.text) == nullptr) SayRaw(text, strlen(text));
    CHECK(strstr(text, c.text) != nullptr);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == c.signal);
    if (c.commit == WrongSize) continue;  // the ordinary report
    CHECK(strstr(text, "  this call by thread ") != nullptr);
    CHECK(strstr(text, "  allocated by thread ") != nullptr);
    const bool was_freed = c.commit != WriteBeyond && c.commit != WriteMargin;
    CHECK((strstr(text, "  freed by thread ") != nullptr) == was_freed);
    CHECK(strstr(text, "sampled_guards+0x") != nullptr);  // a frame of this program
  }
}

void TheProgramsHandlerIsCalledAfterTheReport() {
  static char text[1 << 16];
  const int status = Run(ReadFreed, true, text, sizeof text);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
  const char* const report = strstr(text, "after free at 0x");
  CHECK(report != nullptr && strstr(report, "own handler") != nullptr);
}

void HandlersThatComeLaterAreCalledAfterTheReport() {
  static char text[1 << 16];
  int status = Run(ReadFreedUnderALaterHandler, false, text, sizeof text);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
  const char* report = strstr(text, "after free at 0x");
  CHECK(report != nullptr && strstr(report, "own handler") != nullptr);
  status = Run(ReadFreedUnderAReporter, false, text, sizeof text);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  report = strstr(text, "after free at 0x");
  CHECK(report != nullptr && strstr(report, "reporter") != nullptr);
}

void OtherFaultsAreThePrograms() {
  static char text[1 << 16];
  const auto fault = [] { *static_cast<volatile char*>(Hide(reinterpret_cast<void*>(8))) = 1; };
  int status = Run(fault, false, text, sizeof text);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV && strstr(text, "granary") == nullptr);
  status = Run(fault, true, text, sizeof text);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
  status = Run([] { raise(SIGSEGV); }, false, text, sizeof text);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV && strstr(text, "granary") == nullptr);
}

void* HandlerNow() {
  struct sigaction now {};
  CHECK(sigaction(SIGSEGV, nullptr, &now) == 0);
  return reinterpret_cast<void*>(now.sa_handler);
}

void NothingStaysWhenSwitchedOff() {
  void* const before = HandlerNow();
  CHECK(granary_set_options("guard_sample:20000") == 0);
  CHECK(HandlerNow() != before);
  char* const p = Sampled();
  CHECK(granary_set_options("guard_sample:0") == 0);
  CHECK(HandlerNow() == before);
  free(p);  // of the pool all the same
  for (int i = 0; i < 1000000; ++i) {
    char* const q = static_cast<char*>(Hide(malloc(kSize)));
    CHECK(malloc_usable_size(q) == 48);
    free(q);
  }
}

struct Start {
  pthread_barrier_t barrier;
  int allocations;
};

void* SwitchOnAndAllocate(void* argument) {
  Start& start = *static_cast<Start*>(argument);
  pthread_barrier_wait(&start.barrier);
  CHECK(granary_set_options("guard_sample:1") == 0);
  for (int i = 0; i < start.allocations; ++i) {
    void* const p = Hide(malloc(kSize));
    CHECK(p != nullptr && malloc_usable_size(p) >= kSize);
    free(p);
  }
  return nullptr;
}

// Each child makes the pool for the first time, from several threads at once. Every tenth uses all
// of its pages more than once; in all of them that would take minutes on an emulated machine, where
// each change of a page's protection stops many processors.
void ManyThreadsSwitchThemOn() {
  constexpr int kChildren = 200, kThreads = 6, kFew = 6, kMany = 60;
  for (int i = 0; i < kChildren; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      Start start{.barrier = {}, .allocations = i % 10 == 0 ? kMany : kFew};
      CHECK(pthread_barrier_init(&start.barrier, nullptr, kThreads) == 0);
      pthread_t threads[kThreads];
      for (pthread_t& t : threads) {
        CHECK(pthread_create(&t, nullptr, SwitchOnAndAllocate, &start) == 0);
      }
      for (pthread_t t : threads) CHECK(pthread_join(t, nullptr) == 0);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
}

void ObjectsOfThePoolAreGoodObjects() {
  CHECK(granary_set_options("guard_sample:20000") == 0);
  for (int i = 0; i < 200; ++i) {
    char* p = Sampled();
    memset(p, 0x6b, kSize);
    p = static_cast<char*>(realloc(Hide(p), 200));
    CHECK(p != nullptr && p[0] == 0x6b && p[kSize - 1] == 0x6b);
    ::operator delete(Hide(p), HideSize(200));
    ::operator delete(Hide(Sampled()), HideSize(kSize));
  }
  for (int i = 0; i < 100000; ++i) {
    void* const p = aligned_alloc(256, 512);
    CHECK(p != nullptr && reinterpret_cast<uintptr_t>(p) % 256 == 0);
    free(p);
    char* const zeros = static_cast<char*>(calloc(3, 100));
    CHECK(zeros[0] == 0 && zeros[299] == 0);
    memset(zeros, 1, 300);
    free(zeros);
  }
  CHECK(granary_set_options("guard_sample:0") == 0);
}

}  // namespace

int main() {
  if (granary_set_options == nullptr) SkipTest("needs the library");
  ManyThreadsSwitchThemOn();
  EachMisuseIsReported();
  TheProgramsHandlerIsCalledAfterTheReport();
  HandlersThatComeLaterAreCalledAfterTheReport();
  OtherFaultsAreThePrograms();
  NothingStaysWhenSwitchedOff();
  ObjectsOfThePoolAreGoodObjects();
}
