// Compares the walker with the unwinder of the compiler's run-time library, frame by frame.
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

// The walker's frames, from the function of `start` on.
void WalkFrom(const granary::unwind::Registers& start, Stack* stack);

// The reference's frames, from the caller of the function that calls this.
void AskReference(Stack* stack);

// Fails the test unless both agree on the caller's stack and the stack is complete.
void ExpectSame(const char* where);

// The same, but only as far as the walker came. Returns the number of its frames.
Stack ExpectPrefix(const char* where);

// The number of comparisons.
extern unsigned g_comparisons;

#endif  // GRANARY_TEST_UNWIND_COMPARE_H_
