// gperftools' new mode: malloc, too, may ask the C++ new handler to make room.
#pragma once

#include <cstddef>

namespace granary {

extern bool malloc_calls_new_handler __attribute__((visibility("hidden")));

// As operator new(nothrow) does it.
void* AllocateOrCallHandler(size_t size) noexcept;

}  // namespace granary
