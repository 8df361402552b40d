// The eight operators new: zero, alignment, refusals, and the loop over the new-handler.
#include <malloc.h>

#include <new>

#include "../check.h"

namespace {

constexpr size_t kImpossible = SIZE_MAX / 2 - 64;
constexpr std::align_val_t kWide{256};

using New = void* (*)(size_t);
using Refusal = void (*)(New);

const New kThrowing[] = {
    [](size_t n) { return ::operator new(n); },
    [](size_t n) { return ::operator new[](n); },
    [](size_t n) { return ::operator new(n, kWide); },
    [](size_t n) { return ::operator new[](n, kWide); },
};

const New kNothrow[] = {
    [](size_t n) { return ::operator new(n, std::nothrow); },
    [](size_t n) { return ::operator new[](n, std::nothrow); },
    [](size_t n) { return ::operator new(n, kWide, std::nothrow); },
    [](size_t n) { return ::operator new[](n, kWide, std::nothrow); },
};

void BlocksAreGood(New make, size_t alignment) {
  for (size_t size = 0; size <= (size_t{8} << 20); size = size * 2 + 1) {
    void* block = make(HideSize(size));
    CHECK(block != nullptr);
    CHECK(IsAligned(block, size <= 8 && alignment == 16 ? 8 : alignment));
    CHECK(malloc_usable_size(block) >= size);
    FillPattern(block, size, size);
    CHECK(PatternHolds(block, size, size));
    free(block);
  }
}

void ZeroGivesDistinctBlocks(New make) {
  void* first = make(HideSize(0));
  void* second = make(HideSize(0));
  CHECK(first != nullptr && second != nullptr && first != second);
  free(first);
  free(second);
}

void RefusalThrows(New make) {
  bool thrown = false;
  try {
    Hide(make(HideSize(kImpossible)));
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown);
}

void RefusalIsNull(New make) { CHECK(make(HideSize(kImpossible)) == nullptr); }

int g_calls = 0;

void HandlerThatGivesUpAtThree() {
  if (++g_calls == 3) std::set_new_handler(nullptr);
}

void HandlerThatThrows() {
  ++g_calls;
  throw std::bad_alloc();
}

void TheHandlerIsCalledUntilItIsGone(New make, Refusal refuses) {
  g_calls = 0;
  std::set_new_handler(HandlerThatGivesUpAtThree);
  refuses(make);
  CHECK(g_calls == 3);
  CHECK(std::get_new_handler() == nullptr);
}

void AThrowingHandlerEndsTheLoop(New make, Refusal refuses) {
  g_calls = 0;
  std::set_new_handler(HandlerThatThrows);
  refuses(make);
  CHECK(g_calls == 1);
  std::set_new_handler(nullptr);
}

struct Foreign {};

void ThrowForeign() { throw Foreign(); }

// A throwing form passes on the exception that the handler threw.
void AForeignExceptionPassesThroughThrowingForms(New make) {
  std::set_new_handler(ThrowForeign);
  bool caught = false;
  try {
    Hide(make(HideSize(kImpossible)));
  } catch (const Foreign&) {
    caught = true;
  }
  std::set_new_handler(nullptr);
  CHECK(caught);
}

struct alignas(128) Wide {
  char bytes[200];
};

void ExpressionsWork() {
  for (int i = 0; i < 1000; ++i) {
    auto* wide = new Wide[3];
    CHECK(IsAligned(wide, 128));
    auto* numbers = new int[100]();
    CHECK(AllZero(numbers, 400));
    delete[] static_cast<Wide*>(Hide(wide));
    delete[] static_cast<int*>(Hide(numbers));
  }
}

// The aligned forms are the last two of each table.
void CheckTable(const New (&table)[4], Refusal refuses) {
  for (int i = 0; i < 4; ++i) {
    BlocksAreGood(table[i], i >= 2 ? 256 : 16);
    ZeroGivesDistinctBlocks(table[i]);
    refuses(table[i]);
    TheHandlerIsCalledUntilItIsGone(table[i], refuses);
    AThrowingHandlerEndsTheLoop(table[i], refuses);
  }
}

}  // namespace

int main() {
  CheckTable(kThrowing, RefusalThrows);
  CheckTable(kNothrow, RefusalIsNull);
  for (New make : kThrowing) AForeignExceptionPassesThroughThrowingForms(make);
  ExpressionsWork();
}
