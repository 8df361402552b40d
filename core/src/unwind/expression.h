// DWARF expressions, evaluated without registers: what they amount to as a function of one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "unwind/rule.h"
#include "unwind/table_memory.h"

namespace granary::unwind {

// A number; or a register's value + inner; or the word at a register's value + inner, + outer.
struct Symbolic {
  enum Kind : uint8_t { kNumber, kRegister, kLoaded, kUnknown };
  Kind kind = kUnknown;
  Base base = Base::kSp;
  int64_t inner = 0;
  int64_t outer = 0;  // the number itself, if it is one
};

// What the expression at [begin, end) leaves, for the code at `pc`, if it starts with `first`.
Symbolic Evaluate(TableMemory& memory, uintptr_t begin, uintptr_t end, uintptr_t pc,
                  Symbolic first) noexcept;

}  // namespace granary::unwind
