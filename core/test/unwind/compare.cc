#include "compare.h"

#include <execinfo.h>
#include <unwind.h>

#include "../check.h"
#include "base/check.h"

unsigned g_comparisons = 0;

namespace {

_Unwind_Reason_Code AddFrame(_Unwind_Context* context, void* to) {
  Stack& stack = *static_cast<Stack*>(to);
  int exact = 0;
  const uintptr_t pc = _Unwind_GetIPInfo(context, &exact);
  // The walker reports an interrupted instruction as if a call were before it.
  if (pc != 0 && stack.count < Stack::kMost) stack.frame[stack.count++] = pc + (exact ? 1 : 0);
  return _URC_NO_REASON;
}

void Show(const char* name, const Stack& stack, size_t skip) {
  fprintf(stderr, "%s:\n", name);
  void* addresses[Stack::kMost];
  for (size_t i = skip; i < stack.count; ++i) {
    addresses[i - skip] = reinterpret_cast<void*>(stack.frame[i]);
  }
  fflush(stderr);
  backtrace_symbols_fd(addresses, static_cast<int>(stack.count - skip), 2);
}

[[noreturn]] void Differ(const char* where, const Stack& walked, const Stack& reference) {
  fprintf(stderr, "%s: the walker stopped for reason %d after %zu frames\n", where,
          static_cast<int>(walked.result.stop), walked.count);
  Show("walker", walked, 0);
  Show("reference", reference, 1);
  CheckFailed(__FILE__, __LINE__, "the walker and the reference see the same stack");
}

}  // namespace

void WalkFrom(const granary::unwind::Registers& start, Stack* stack) {
  stack->count = granary::unwind::Walk(start, stack->frame, Stack::kMost, &stack->result);
}

__attribute__((noinline)) void AskReference(Stack* stack) {
  stack->count = 0;
  _Unwind_Backtrace(AddFrame, stack);
  // The first frame is in this function.
  for (size_t i = 1; i < stack->count; ++i) stack->frame[i - 1] = stack->frame[i];
  if (stack->count > 0) --stack->count;
}

// The reference begins in the function itself, the walker in its caller.
__attribute__((noinline)) void ExpectSame(const char* where) {
  Stack walked, reference;
  WalkFrom(granary::unwind::Here(), &walked);
  AskReference(&reference);
  bool same = walked.count + 1 == reference.count &&
              walked.result.stop == granary::unwind::Stop::kOutermost;
  for (size_t i = 0; same && i < walked.count; ++i) {
    same = walked.frame[i] == reference.frame[i + 1];
  }
  if (!same) Differ(where, walked, reference);
  ++g_comparisons;
}

__attribute__((noinline)) Stack ExpectPrefix(const char* where) {
  Stack walked, reference;
  WalkFrom(granary::unwind::Here(), &walked);
  // With wrong tables the reference may crash.
  const bool complete = walked.result.stop == granary::unwind::Stop::kOutermost;
  if (complete) AskReference(&reference);
  for (size_t i = 0; i < walked.count && i + 1 < reference.count; ++i) {
    if (walked.frame[i] != reference.frame[i + 1]) Differ(where, walked, reference);
  }
  ++g_comparisons;
  return walked;
}

namespace granary {

[[noreturn]] void Die(const char* message) noexcept { CheckFailed(__FILE__, __LINE__, message); }
void Warn(const char* text, size_t bytes) noexcept { SayRaw(text, bytes); }

}  // namespace granary
