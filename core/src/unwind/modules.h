// Which module lies around an address, and where its tables are: asked without a lock.
//
// glibc 2.35 and later tells (_dl_find_object). Elsewhere Refresh() keeps rows of its own, from the
// loader's list, which is under a lock; musl never unloads a module, so there its rows stay true.
#pragma once

#include <cstdint>

#include "unwind/tables.h"

namespace granary::unwind {

struct Module {
  Tables tables;
  uint64_t identity = 0;  // another one if something else is loaded at the same addresses
  bool stays = false;     // for as long as the process: nobody can unload it
};

// False if no module lies there.
bool FindModule(uintptr_t pc, Module* module) noexcept;

// Whether `pc` is in a module that stays, for which its tables need not be found first.
bool InLastingModule(uintptr_t pc) noexcept;

// See unwind.h.
void RefreshModules() noexcept;

}  // namespace granary::unwind
