// What the heap leaves of the address space to the rest of the process.
#pragma once

#include "base/units.h"
#include "os/os.h"

namespace granary {

// Whether a program that runs out of memory could still map a stack for a thread.
template <Os System>
bool HasRoom() noexcept {
  constexpr size_t kRoom = 2 * kMiB;
  void* const room = System::Map(kRoom, kMinOsPage, nullptr);
  if (room != nullptr) System::Unmap(room, kRoom);
  return room != nullptr;
}

}  // namespace granary
