// Aligned mappings, of a system that aligns mappings to pages only.
#pragma once

#include <cstddef>

#include "base/bits.h"

namespace granary {

// Keeps `bytes` at a multiple of `alignment` of a mapping of bytes + alignment, and unmaps the
// rest.
template <class Unmap>
char* KeepAligned(void* mapping, size_t bytes, size_t alignment, Unmap unmap) {
  char* const whole = static_cast<char*>(mapping);
  char* const kept = reinterpret_cast<char*>(RoundUp(AddressOf(whole), alignment));
  const auto before = static_cast<size_t>(kept - whole);
  if (before > 0) unmap(whole, before);
  if (before < alignment) unmap(kept + bytes, alignment - before);
  return kept;
}

}  // namespace granary
