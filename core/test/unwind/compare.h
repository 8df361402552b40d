// Holds the walker against the unwinder of the compiler's run-time library, frame by frame.
#ifndef GRANARY_TEST_UNWIND_COMPARE_H_
#define GRANARY_TEST_UNWIND_COMPARE_H_

#include <stddef.h>
#include <stdint.h>

#include "unwind/unwind.h"

struct Stack {
  static constexpr size_t kMost = 256;
  uintptr_t frame[kMost];
  size_t count = 0;
  granary::unwind::Result result;
};

// As the library sees it, from the function that `start` is in.
void WalkFrom(const granary::unwind::Registers& start, Stack* stack);

// As the compiler's library sees it, from the caller of the function that calls this.
void AskReference(Stack* stack);

// Ends the test unless both agree on the stack of the caller and it is complete.
void ExpectSame(const char* where);

// Likewise, but only that nothing differs as far as the walker came. Returns its frames.
Stack ExpectPrefix(const char* where);

// How often the two were compared.
extern unsigned g_comparisons;

#endif  // GRANARY_TEST_UNWIND_COMPARE_H_
