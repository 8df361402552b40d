// Allocates until the system refuses, without memory for a list: the blocks themselves contain the
// list that frees them. Shared by the programs that run out of memory on purpose.
#ifndef GRANARY_TEST_PROCESS_OOM_H_
#define GRANARY_TEST_PROCESS_OOM_H_

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#include <new>

#include "../child.h"

namespace oom {

// How a block is allocated; `alignment` 0 means malloc.
struct Request {
  size_t size;
  size_t alignment;
};

inline const Request kRequests[] = {
    {64, 0},      {1000, 0},          {5000, 0}, {100 << 10, 0},     {5 << 20, 0},
    {3000, 4096}, {200 << 10, 65536}, {48, 64},  {3 << 20, 1 << 20},
};

inline void* Ask(const Request& request) {
  return request.alignment == 0 ? malloc(request.size)
                                : aligned_alloc(request.alignment, request.size);
}

struct Link {
  Link* next;
  size_t check;
};

struct Chain {
  Link* head = nullptr;
  size_t count = 0;
  bool refused = false;  // the last request returned null
};

// Allocates blocks until one is refused or `most_bytes` are allocated.
inline Chain TakeAll(const Request& request, size_t most_bytes) {
  Chain chain;
  for (size_t bytes = 0; bytes < most_bytes; bytes += request.size) {
    errno = 0;
    auto* link = static_cast<Link*>(Ask(request));
    if (link == nullptr) {
      CHECK(errno == ENOMEM);
      chain.refused = true;
      return chain;
    }
    *link = {chain.head, reinterpret_cast<size_t>(link) ^ request.size};
    chain.head = link;
    ++chain.count;
  }
  return chain;
}

inline void FreeAll(Chain& chain, const Request& request) {
  while (chain.head != nullptr) {
    Link* link = chain.head;
    CHECK(link->check == (reinterpret_cast<size_t>(link) ^ request.size));
    chain.head = link->next;
    free(link);
  }
}

// A request larger than the address space, made while there is no memory for the exception.
inline void OperatorsRefuseToo() {
  constexpr size_t kImpossible = SIZE_MAX / 4;
  CHECK(::operator new(HideSize(kImpossible), std::nothrow) == nullptr);
  bool thrown = false;
  try {
    Hide(::operator new(HideSize(kImpossible)));
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown);
}

// The C library's heap does not use small freed blocks for requests of other sizes.
inline void* AllocateALittle(void*) {
  if (OnSystemHeap()) return nullptr;
  for (int i = 0; i < 1000; ++i) {
    void* block = malloc(static_cast<size_t>(i) * 3 + 1);
    CHECK(block != nullptr);
    memset(block, i, static_cast<size_t>(i) * 3 + 1);
    free(block);
  }
  return nullptr;
}

inline void ThreadsStartAndAllocate(size_t stack_size = 128 << 10) {
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, stack_size) == 0);
  for (int i = 0; i < 8; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, AllocateALittle, nullptr) == 0);
    CHECK(pthread_join(thread, nullptr) == 0);
  }
  pthread_attr_destroy(&attributes);
}

// One kind of request: allocates to the end, frees all, and allocates at least half as much again.
inline void ExhaustAndRecover(const Request& request, size_t most_bytes, bool must_refuse) {
  Chain first = TakeAll(request, most_bytes);
  CHECK(first.refused || !must_refuse);
  OperatorsRefuseToo();
  const size_t count = first.count;
  FreeAll(first, request);
  Chain second = TakeAll(request, count / 2 * request.size);
  CHECK(!second.refused);
  FreeAll(second, request);
}

// The C library keeps the stacks of the first threads, so that later threads depend on the heap
// alone.
inline void RunAll(size_t most_bytes, bool must_refuse) {
  ThreadsStartAndAllocate();
  for (const Request& request : kRequests) {
    ExhaustAndRecover(request, most_bytes, must_refuse);
    ThreadsStartAndAllocate();
  }
}

// Bytes on the line of /proc/self/status that starts with `name`, read without the heap.
inline size_t StatusBytes(const char* name) {
  char text[4096];
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0);
  const ssize_t length = read(file, text, sizeof(text) - 1);
  close(file);
  CHECK(length > 0);
  text[length] = '\0';
  const char* line = strstr(text, name);
  CHECK(line != nullptr);
  return strtoul(line + strlen(name), nullptr, 10) << 10;
}

inline void Limit(int resource, size_t bytes) {
  struct rlimit limit;
  CHECK(getrlimit(resource, &limit) == 0);
  limit.rlim_cur = bytes;
  CHECK(setrlimit(resource, &limit) == 0);
}

// Runs this program again with `argument`, under a limit that applies from its first instruction.
inline void RunLimited(int resource, size_t bytes, const char* argument) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    EndIfStuck();
    Limit(resource, bytes);
    execl("/proc/self/exe", "limited", argument, static_cast<char*>(nullptr));
    _exit(99);
  }
  ExpectCleanChild(child);
}

}  // namespace oom

#endif  // GRANARY_TEST_PROCESS_OOM_H_
