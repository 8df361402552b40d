// The entries of .eh_frame: finds the entry for an address in the code, and reads it.
#pragma once

#include <cstdint>

#include "unwind/cursor.h"
#include "unwind/tables.h"

namespace granary::unwind {

// A frame description entry together with the common part that it names.
struct FrameEntry {
  uint64_t begin = 0, end = 0;  // bounds of the code
  uint64_t code_unit = 1;
  int64_t data_unit = 1;
  uint64_t return_register = 0;
  uint8_t encoding = 0;
  bool augmented = false;
  bool signal = false;
  uintptr_t common_program = 0, common_end = 0;
  uintptr_t program = 0, program_end = 0;
};

// A row of the table of a module, both relative to its header.
struct FrameRow {
  int32_t code;
  int32_t entry;
};

// The end of the entry or common part at `at`, or 0 if it does not end before `limit`.
uintptr_t NextEntry(TableMemory& memory, uintptr_t at, uintptr_t limit) noexcept;

// False for a common part, and for bytes that are neither entry nor common part.
bool ReadEntry(TableMemory& memory, const Tables& tables, uintptr_t at, FrameEntry* entry) noexcept;

// False if no entry describes `pc`.
bool FindEntry(TableMemory& memory, const Tables& tables, uintptr_t pc, FrameEntry* entry) noexcept;

}  // namespace granary::unwind
