// gperftools' new mode: malloc may also call the C++ new handler to free memory.
#pragma once

#include <cstddef>

namespace granary {

extern bool malloc_calls_new_handler __attribute__((visibility("hidden")));

// As operator new(nothrow) does.
void* AllocateOrCallHandler(size_t size) noexcept;

}  // namespace granary
