// Nine threads allocate together until memory ends, by one function at a time: whatever is not null
// is aligned, zeroed where calloc gave it, and holds its bytes until all threads have been refused.
#include <malloc.h>

#include <algorithm>
#include <initializer_list>

#include "oom.h"

namespace {

constexpr size_t kLimit = size_t{128} << 20;
constexpr int kThreads = 8;  // beside the main thread

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// The pattern covers the start of a block, so that not all of memory is written and read.
constexpr size_t kPattern = 256;

size_t g_size, g_alignment;
void* (*g_allocate)();
pthread_barrier_t g_start, g_refused;

void* ByMalloc() { return malloc(g_size); }
void* ByCalloc() {
  void* block = calloc(1, g_size);
  CHECK(block == nullptr || AllZero(block, std::min(g_size, kPattern)));
  return block;
}
void* ByRealloc() {
  void* small = realloc(nullptr, 16);
  if (small == nullptr) return nullptr;
  void* block = realloc(small, g_size);
  if (block == nullptr) free(small);
  return block;
}
void* ByValloc() { return valloc(g_size); }
void* ByPvalloc() { return pvalloc(g_size); }
void* ByAlignedAlloc() { return aligned_alloc(g_alignment, g_size); }
void* ByMemalign() { return memalign(g_alignment, g_size); }
void* ByPosixMemalign() {
  void* block = nullptr;
  const int error = posix_memalign(&block, g_alignment, g_size);
  CHECK(error == 0 || (error == ENOMEM && block == nullptr));
  return block;
}

struct Link {
  Link* next;
  uint64_t seed;
};

Link* TakeUntilRefused() {
  Link* head = nullptr;
  uint64_t seed = 0;
  while (true) {
    void* block = g_allocate();
    if (block == nullptr) return head;
    CHECK(IsAligned(block, g_alignment));
    FillPattern(block, std::min(g_size, kPattern), ++seed);
    Link* link = static_cast<Link*>(block);
    *link = {head, seed};
    head = link;
  }
}

void CheckAndFree(Link* link) {
  while (link != nullptr) {
    Link* const next = link->next;
    const uint64_t seed = link->seed;
    FillPattern(link, sizeof(Link), seed);
    CHECK(PatternHolds(link, std::min(g_size, kPattern), seed));
    free(link);
    link = next;
  }
}

void* Exhaust(void*) {
  pthread_barrier_wait(&g_start);
  Link* const all = TakeUntilRefused();
  pthread_barrier_wait(&g_refused);
  CheckAndFree(all);
  return nullptr;
}

void ExhaustByThreads() {
  oom::Limit(RLIMIT_AS, kLimit);
  CHECK(pthread_barrier_init(&g_start, nullptr, kThreads + 1) == 0);
  CHECK(pthread_barrier_init(&g_refused, nullptr, kThreads + 1) == 0);
  pthread_attr_t small_stack;
  CHECK(pthread_attr_init(&small_stack) == 0);
  CHECK(pthread_attr_setstacksize(&small_stack, 256 << 10) == 0);
  pthread_t threads[kThreads];
  for (pthread_t& thread : threads) {
    CHECK(pthread_create(&thread, &small_stack, Exhaust, nullptr) == 0);
  }
  Exhaust(nullptr);
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  void* block = malloc(100);
  CHECK(block != nullptr);
  free(block);
}

void InAChild(void* (*allocate)(), size_t size, size_t alignment) {
  g_allocate = allocate;
  g_size = size;
  g_alignment = alignment;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    EndIfStuck();
    ExhaustByThreads();
    _exit(0);
  }
  ExpectCleanChild(child);
}

// The new handler frees what the program can spare, and the same call of new succeeds.
void* g_spare;
int g_handled;

void FreeTheSpare() {
  CHECK(g_spare != nullptr);
  ++g_handled;
  free(g_spare);
  g_spare = nullptr;
}

void ANewHandlerMakesRoom() {
  oom::Limit(RLIMIT_AS, kLimit);
  g_spare = malloc(HideSize(30 << 20));
  CHECK(g_spare != nullptr);
  std::set_new_handler(FreeTheSpare);
  while (g_handled == 0) CHECK(Hide(new char[1 << 20]) != nullptr);
  CHECK(g_spare == nullptr);
}

}  // namespace

int main() {
  for (auto* allocate : {ByMalloc, ByCalloc, ByRealloc}) {
    for (size_t size : {size_t{144}, kPage}) InAChild(allocate, size, 16);
  }
  for (auto* allocate : {ByValloc, ByPvalloc}) {
    for (size_t size : {size_t{144}, kPage, 17 * kPage}) InAChild(allocate, size, kPage);
  }
  for (auto* allocate : {ByAlignedAlloc, ByMemalign, ByPosixMemalign}) {
    for (size_t size : {size_t{512}, kPage, 17 * kPage}) InAChild(allocate, size, 128);
  }
  ANewHandlerMakesRoom();
}
