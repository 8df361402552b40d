#include "unwind/stack.h"
#include "unwind/unwind.h"

namespace granary::unwind {
namespace {

Stop StepByFramePointer(Stack& stack, Registers& at) {
  uintptr_t caller = 0, pc = 0;
  if (at.fp < at.sp || at.fp == 0) return Stop::kNoRule;
  if (!stack.Read(at.fp, &caller) || !stack.Read(at.fp + sizeof(caller), &pc)) {
    return Stop::kUnreadable;
  }
  if (pc == 0) return Stop::kOutermost;
  at.pc = pc;
  at.sp = at.fp + 2 * sizeof(caller);
  at.fp = caller;
  return Stop::kFull;
}

}  // namespace

size_t Walk(const Registers& start, uintptr_t* frames, size_t max, Result* result) noexcept {
  Stack stack(start.sp);
  Registers at = start;
  *result = {.stop = Stop::kFull, .guessed = true};
  for (size_t count = 0; count < max; ++count) {
    result->stop = StepByFramePointer(stack, at);
    if (result->stop != Stop::kFull) return count;
    frames[count] = at.pc;
  }
  return max;
}

void Refresh() noexcept {}

}  // namespace granary::unwind
