// Reads words on a stack only where that cannot fault.
//
// Each thread remembers the part of its own stack that it once found readable, from the stack
// pointer to the end of the stack. No thread unmaps that part while the thread lives. Any other
// stack (of a signal, of a coroutine) is checked page by page in each walk.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "os/linux.h"

namespace granary::unwind {

class Stack {
 public:
  explicit Stack(uintptr_t sp) noexcept;

  // False if the address is unaligned or unreadable.
  bool Read(uintptr_t address, uintptr_t* word) noexcept {
    if (address % sizeof(uintptr_t) != 0) return false;
    const bool own = address >= sp_ && address < own_end_;
    if (!own && !Load(address)) return false;
    *word = *reinterpret_cast<const volatile uintptr_t*>(address);
    return true;
  }

 private:
  bool Load(uintptr_t address) noexcept {
    const uintptr_t page = address / kMinOsPage;
    if (page == page_) return true;
    if (!Linux::IsReadable(reinterpret_cast<const void*>(address))) return false;
    page_ = page;
    return true;
  }

  static constexpr uintptr_t kNoPage = ~uintptr_t{0};

  uintptr_t sp_;
  uintptr_t own_end_ = 0;
  uintptr_t page_;
};

}  // namespace granary::unwind
