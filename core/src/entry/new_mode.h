// gperftools' new mode: the malloc family may also call the C++ new handler to free memory.
#pragma once

#include "base/compiler.h"

namespace granary {

extern bool malloc_calls_new_handler __attribute__((visibility("hidden")));

// False if there is no new handler, or it gave up.
bool CallNewHandler() noexcept;

// Repeats a refused request as operator new(nothrow) does, in the new mode.
template <class Request>
GRANARY_ALWAYS_INLINE void* InNewMode(Request request) noexcept {
  for (;;) {
    void* const p = request();
    if (p != nullptr || !malloc_calls_new_handler || !CallNewHandler()) return p;
  }
}

}  // namespace granary
