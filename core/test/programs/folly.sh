#!/bin/sh
# folly's use of the allocator. It declares ten functions of jemalloc weakly, without a header or
# beside jemalloc's header, trusts them if a counter changes across malloc(1), and from then on
# frees with sizes and rounds its requests up to the result of nallocx.
set -eu
. "$(dirname "$0")/lib.inc"
need c++

cat >"$work/probe.cc" <<'END'
#ifdef WITH_HEADER
#include <jemalloc/jemalloc.h>
#endif
#include <stdint.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

extern "C" {
#define WEAK __attribute__((__nothrow__, __weak__))
void* mallocx(size_t, int) WEAK;
void* rallocx(void*, size_t, int) WEAK;
size_t xallocx(void*, size_t, size_t, int) WEAK;
size_t sallocx(const void*, int) WEAK;
void dallocx(void*, int) WEAK;
void sdallocx(void*, size_t, int) WEAK;
size_t nallocx(size_t, int) WEAK;
int mallctl(const char*, void*, size_t*, void*, size_t) WEAK;
int mallctlnametomib(const char*, size_t*, size_t*) WEAK;
int mallctlbymib(const size_t*, size_t, void*, size_t*, void*, size_t) WEAK;
bool MallocExtension_Internal_GetNumericProperty(const char*, size_t, size_t*) WEAK;
}

namespace {

bool AllThere() {
  return mallocx && rallocx && xallocx && sallocx && dallocx && sdallocx && nallocx && mallctl &&
         mallctlnametomib && mallctlbymib;
}

int Defined() {
  return !!mallocx + !!rallocx + !!xallocx + !!sallocx + !!dallocx + !!sdallocx + !!nallocx + !!mallctl +
         !!mallctlnametomib + !!mallctlbymib;
}

volatile uint64_t* Counter(const char* name) {
  volatile uint64_t* counter = nullptr;
  size_t size = sizeof counter;
  const bool read = mallctl(name, &counter, &size, nullptr, 0) == 0;
  return read && size == sizeof counter ? counter : nullptr;
}

// In each thread, each call shows at once in the counters of that thread, by the size that nallocx said.
bool CountsExactly() {
  volatile uint64_t* const allocated = Counter("thread.allocatedp");
  volatile uint64_t* const freed = Counter("thread.deallocatedp");
  if (allocated == nullptr || freed == nullptr) return false;
  for (size_t size = 1; size < 3000000; size += size / 3 + 1) {
    const uint64_t a = *allocated, f = *freed;
    const size_t good = nallocx(size, 0);
    void* volatile p = std::malloc(size);
    if (*allocated - a != good || *freed != f || sallocx(p, 0) != good) return false;
    sdallocx(p, size, 0);
    if (*freed - f != good) return false;
    p = std::malloc(good);  // a buffer of a good size can be grown where it is only past 4096
    if (xallocx(p, good, 0, 0) != good) return false;
    p = rallocx(p, 2 * good, 0);
    sdallocx(p, 2 * good, 0);
    if (*allocated - a != *freed - f) return false;
  }
  return true;
}

}  // namespace

int main() {
  if (!AllThere()) return std::printf("no, %d of 10\n", Defined()), 0;
  volatile uint64_t* const counter = Counter("thread.allocatedp");
  if (counter == nullptr) return std::puts("no counter"), 0;
  const uint64_t before = *counter;
  static void* volatile p = std::malloc(1);
  std::free(p);
  if (before == *counter) return std::puts("no movement"), 0;
  std::vector<std::thread> threads;
  int wrong[8] = {};
  for (int& w : wrong) threads.emplace_back([&w] { w = !CountsExactly(); });
  for (std::thread& t : threads) t.join();
  for (const int w : wrong) {
    if (w != 0) return std::puts("wrong counts"), 0;
  }
  std::printf("jemalloc%s\n", MallocExtension_Internal_GetNumericProperty ? " and tcmalloc" : "");
}
END
names=$work/names
mkdir "$names"
ln -s "$lib" "$names/libgranary.so.1"
ln -s "$lib" "$names/libjemalloc.so"
for header in '' -DWITH_HEADER; do
  # shellcheck disable=SC2086  # none or one
  build() { c++ -O1 -fno-builtin $header -I"$root/core/include" "$work/probe.cc" "$@"; }
  build -o "$work/probe"
  expect_equal 'no, 0 of 10' "$("$work/probe")" "the probe on the C library's malloc"
  expect_equal jemalloc "$(under "$work/probe")" "the probe under the library $header"
  build -o "$work/linked" -L"$names" -Wl,-rpath,"$names" -ljemalloc
  expect_equal jemalloc "$("$work/linked")" "the probe linked with the library $header"
done
