// The rule of a function without tables that returns directly after the call: the instructions
// after the call show where its caller's frame is. The functions that Python generates for perf (-X
// perf), one per Python function, have this form, because each only calls the interpreter.
#pragma once

#include <cstdint>

#include "unwind/rule.h"

namespace granary::unwind {

// False unless the code at the return address `pc` frees its frame and returns.
bool FindEpilogue(uintptr_t pc, Rule* rule) noexcept;

}  // namespace granary::unwind
