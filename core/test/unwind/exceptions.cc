// Allocations while exceptions are thrown, and code that runs while frames are unwound.
#include <stdlib.h>

#include <stdexcept>
#include <string>

#include "../check.h"
#include "compare.h"
#include "shapes.h"

namespace {

bool g_watch = false;

struct Leaving {
  ~Leaving() { ExpectSame("destructor of a frame that is left"); }
};

struct Thrown : std::runtime_error {
  explicit Thrown(const char* what) : std::runtime_error(what) {}
  Thrown(const Thrown& other) : std::runtime_error(other) { ExpectSame("copy of an exception"); }
};

__attribute__((noinline)) void Throw(int depth) {
  Leaving leaving;
  if (depth > 0) return Throw(depth - 1);
  g_watch = true;
  throw Thrown("thrown");
}

__attribute__((noinline)) void ThrowAgain() {
  try {
    Throw(3);
  } catch (Thrown& caught) {
    ExpectSame("handler");
    throw;
  }
}

}  // namespace

#if defined(__GLIBC__)
// __cxa_allocate_exception calls malloc.
extern "C" void* __libc_malloc(size_t size);
extern "C" void* malloc(size_t size) {
  if (g_watch) {
    g_watch = false;
    ExpectSame("allocation of an exception");
  }
  return __libc_malloc(size);
}
#endif

void TestExceptions() {
  const unsigned before = g_comparisons;
  bool caught = false;
  try {
    ThrowAgain();
  } catch (std::runtime_error& thrown) {
    caught = true;
    CHECK(std::string(thrown.what()) == "thrown");
  }
  g_watch = false;
  CHECK(caught && g_comparisons - before >= 5);
}
