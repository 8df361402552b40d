// Shared by the whole-program tests: a check that reports and exits, a seeded generator, and byte
// patterns. Plain C, so that C and C++ programs use the same file. Nothing here allocates, because
// tests that exhaust memory must still be able to report.
#ifndef GRANARY_TEST_CHECK_H_
#define GRANARY_TEST_CHECK_H_

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__cplusplus)
#define TEST_NORETURN [[noreturn]]
#else
#define TEST_NORETURN _Noreturn
#endif

enum { kExitFailed = 1, kExitSkipped = 77 };

static inline void SayRaw(const char* text, size_t length) {
  while (length > 0) {
    ssize_t written = write(STDERR_FILENO, text, length);
    if (written <= 0) return;
    text += written;
    length -= (size_t)written;
  }
}

TEST_NORETURN static inline void CheckFailed(const char* file, int line, const char* expression) {
  char text[512];
  int error = errno;
  const char* slash = strrchr(file, '/');
  int length = snprintf(text, sizeof(text), "%s:%d: failed: %s (errno %d)\n",
                        slash != NULL ? slash + 1 : file, line, expression, error);
  if (length >= (int)sizeof(text)) length = (int)sizeof(text) - 1;
  SayRaw(text, (size_t)length);
  _exit(kExitFailed);
}

TEST_NORETURN static inline void SkipTest(const char* message) {
  SayRaw("skipped: ", 9);
  SayRaw(message, strlen(message));
  SayRaw("\n", 1);
  _exit(kExitSkipped);
}

#define CHECK(cond)                                      \
  do {                                                   \
    if (!(cond)) CheckFailed(__FILE__, __LINE__, #cond); \
  } while (0)

// Hides from the compiler where a pointer came from, so that it removes no call and diagnoses no
// deliberate misuse at compile time.
static inline void* Hide(const void* pointer) {
  void* hidden = (void*)(uintptr_t)pointer;
  __asm__ volatile("" : "+r"(hidden) : : "memory");
  return hidden;
}

static inline size_t HideSize(size_t size) {
  __asm__ volatile("" : "+r"(size));
  return size;
}

static inline bool IsAligned(const void* pointer, size_t alignment) {
  return ((uintptr_t)pointer & (alignment - 1)) == 0;
}

// The alignment that C guarantees for a request of `size` bytes.
static inline size_t PromisedAlignment(size_t size) { return size <= 8 ? 8 : 16; }

// True when the process runs on the C library's heap. The few clauses in which Granary is stricter
// than the C library then do not apply.
static inline bool OnSystemHeap(void) {
  Dl_info owner;
  void* address = Hide((const void*)(uintptr_t)&malloc);
  if (dladdr(address, &owner) == 0 || owner.dli_fname == NULL) return false;
  const char* slash = strrchr(owner.dli_fname, '/');
  const char* name = slash != NULL ? slash + 1 : owner.dli_fname;
  return strncmp(name, "libc.", 5) == 0 || strncmp(name, "ld-musl", 7) == 0;
}

static inline uint64_t NextRandom(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Sizes with the distribution of real programs: half of them below 2^7, each doubling above half as
// likely, never above 2^max_log2.
static inline size_t RandomSize(uint64_t* state, unsigned max_log2) {
  uint64_t bits = NextRandom(state);
  unsigned log2 = 7;
  while ((bits & 1) != 0 && log2 < max_log2) {
    bits >>= 1;
    ++log2;
  }
  return (size_t)(NextRandom(state) & (((uint64_t)1 << log2) - 1));
}

static inline uint64_t PatternWord(uint64_t seed, size_t index) {
  return (seed + index) * 0xff51afd7ed558ccdu;
}

static inline void FillPattern(void* block, size_t size, uint64_t seed) {
  unsigned char* bytes = (unsigned char*)block;
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    uint64_t word = PatternWord(seed, at);
    size_t left = size - at;
    memcpy(bytes + at, &word, left < sizeof(word) ? left : sizeof(word));
  }
}

static inline bool PatternHolds(const void* block, size_t size, uint64_t seed) {
  const unsigned char* bytes = (const unsigned char*)block;
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    uint64_t word = PatternWord(seed, at);
    size_t left = size - at;
    if (memcmp(bytes + at, &word, left < sizeof(word) ? left : sizeof(word)) != 0) return false;
  }
  return true;
}

static inline bool AllZero(const void* block, size_t size) {
  const unsigned char* bytes = (const unsigned char*)block;
  return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

#endif  // GRANARY_TEST_CHECK_H_
