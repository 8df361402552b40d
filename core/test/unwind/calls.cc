// Ordinary calls: deep calls, large and variable frames, realigned stacks, callbacks from the C
// library, tail calls, calls that do not return.
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "../check.h"
#include "compare.h"
#include "shapes.h"

namespace {

// Prevents the call before it from being the last call of its function.
void After() { __asm__ volatile("" ::: "memory"); }

__attribute__((noinline)) void Deep(int depth) {
  if (depth == 0) {
    ExpectSame("deep");
  } else {
    Deep(depth - 1);
  }
  After();
}

__attribute__((noinline)) void Variable(size_t bytes) {
  char* const block = static_cast<char*>(alloca(HideSize(bytes)));
  memset(block, 1, bytes);
  if (bytes > 40000) {
    ExpectSame("variable frame");
  } else {
    Variable(bytes * 3);
  }
  Hide(block);
}

__attribute__((noinline)) void Large() {
  char block[300000];
  memset(block, 1, sizeof block);
  ExpectSame("large frame");
  Hide(block);
}

__attribute__((noinline)) void Realigned(int depth) {
  alignas(128) char block[256];
  char* const more = static_cast<char*>(alloca(HideSize(100)));
  memset(block, 1, sizeof block);
  memset(more, 1, 100);
  CHECK(IsAligned(Hide(block), 128));
  if (depth > 0) Realigned(depth - 1);
  ExpectSame("realigned stack");
  Hide(more);
}

__attribute__((noinline)) int Arguments(int count, ...) {
  va_list list;
  va_start(list, count);
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += va_arg(list, int);
  va_end(list);
  ExpectSame("variable arguments");
  return sum;
}

int CompareInts(const void* a, const void* b) {
  ExpectSame("callback of qsort");
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

void Callbacks() {
  int numbers[] = {3, 1, 2};
  qsort(numbers, 3, sizeof numbers[0], CompareInts);
  std::sort(std::begin(numbers), std::end(numbers), [](int a, int b) {
    ExpectSame("callback of std::sort");
    return a > b;
  });
  std::map<std::string, std::function<void(int)>> table;
  table["a"] = [](int depth) { Deep(depth); };
  table["a"](2);
}

__attribute__((noinline)) void Third(int, int, int) {
  ExpectSame("tail call");
  After();
}
__attribute__((noinline)) void Second(int a, int b) { return Third(a, b, 3); }
__attribute__((noinline)) void First(int a) { return Second(a, 2); }

jmp_buf g_back;

[[noreturn]] __attribute__((noinline)) void Leave() {
  ExpectSame("call that does not return");
  longjmp(g_back, 1);
}

// The call of Leave is the last instruction of its function, so the return address is already in
// another function.
__attribute__((noinline)) void CallLast(int condition) {
  After();
  if (condition != 0) Leave();
}

}  // namespace

void TestCalls() {
  Deep(0);
  Deep(1);
  Deep(100);
  Variable(100);
  Large();
  Realigned(3);
  CHECK(Arguments(9, 1, 2, 3, 4, 5, 6, 7, 8, 9) == 45);
  Callbacks();
  First(1);
  if (setjmp(g_back) == 0) CallLast(1);
  ExpectSame("after a jump");
}

namespace {
// Runs before main.
__attribute__((constructor)) void OnLoad() { ExpectSame("constructor"); }
// Runs after main.
__attribute__((destructor)) void OnExit() { ExpectSame("destructor"); }
}  // namespace
