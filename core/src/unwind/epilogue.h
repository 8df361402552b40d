// How a function without tables returns, where that is the next thing it does: what stands after
// the call tells for certain where its caller's frame is. So do the functions that Python writes
// for perf, one for each of a program's (-X perf), each of which only calls the interpreter.
#pragma once

#include <cstdint>

#include "unwind/rule.h"

namespace granary::unwind {

// False unless the code at the return address `pc` frees its frame and returns.
bool FindEpilogue(uintptr_t pc, Rule* rule) noexcept;

}  // namespace granary::unwind
