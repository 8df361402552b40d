// Evaluates DWARF expressions without registers: the result is a function of one register.
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

// Evaluates the expression at [begin, end) for the code at `pc`, with `first` on its stack.
Symbolic Evaluate(TableMemory& memory, uintptr_t begin, uintptr_t end, uintptr_t pc,
                  Symbolic first) noexcept;

}  // namespace granary::unwind
