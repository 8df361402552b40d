// Another origin of the shared heap's regions than the kernel: functions of the program, such as
// jemalloc's extent hooks of arena 0 (arena/shared_regions.cc). Linux asks them first.
#pragma once

#include <cstddef>

namespace granary {

struct RegionHooks {
  // Whether reserve is asked; otherwise regions come from the kernel again.
  bool (*asked)();
  void* (*reserve)(size_t bytes, size_t alignment);
  // Whether p is in memory that reserve gave.
  bool (*has)(const void* p);
  bool (*commit)(void* p, size_t bytes);
  void (*unmap)(void* p, size_t bytes);
  bool (*purge)(void* p, size_t bytes);
};

// nullptr until a program gives hooks. The object stays.
inline constinit const RegionHooks* region_hooks __attribute__((visibility("hidden"))) = nullptr;

inline bool IsHooked(const void* p) noexcept {
  return region_hooks != nullptr && region_hooks->has(p);
}

}  // namespace granary
