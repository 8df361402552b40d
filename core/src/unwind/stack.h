// Words on a stack, read only where that cannot fault.
#pragma once

#include <cstdint>

#include "base/compiler.h"
#include "base/units.h"
#include "os/linux.h"

namespace granary::unwind {

class Stack {
 public:
  // `inside` is an address on the stack that the thread runs on.
  explicit Stack(uintptr_t inside) noexcept : page_(inside / kMinOsPage) {}

  // False if there is no aligned, readable word.
  bool Read(uintptr_t address, uintptr_t* word) noexcept {
    if (address % sizeof(uintptr_t) != 0 || !Look(address)) return false;
    *word = *reinterpret_cast<const volatile uintptr_t*>(address);
    return true;
  }

 private:
  bool Look(uintptr_t address) noexcept {
    const uintptr_t page = address / kMinOsPage;
    if (page == page_) return true;
    if (!Linux::IsReadable(reinterpret_cast<const void*>(address))) return false;
    page_ = page;
    return true;
  }

  uintptr_t page_;
};

}  // namespace granary::unwind
