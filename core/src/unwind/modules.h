// Finds the module that contains an address, and its tables, without a lock.
//
// glibc 2.35 and later has a function for this (_dl_find_object). Elsewhere Refresh() copies rows
// from the loader's list, which is under a lock. musl never unloads a module, so its rows stay
// valid.
#pragma once

#include <cstdint>

#include "unwind/tables.h"

namespace granary::unwind {

struct Module {
  Tables tables;
  uint64_t identity = 0;  // changes if another module is loaded at the same addresses
  bool stays = false;     // true if nothing can unload the module while the process runs
};

// False if no module contains `pc`.
bool FindModule(uintptr_t pc, Module* module) noexcept;

// Whether `pc` is in a module that stays loaded. Does not search for its tables.
bool InLastingModule(uintptr_t pc) noexcept;

// Details: unwind.h.
void RefreshModules() noexcept;

}  // namespace granary::unwind
