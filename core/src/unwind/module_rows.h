// A copy of the loader's list of modules: written where the loader's lock may be taken, read where
// it may not. A reader that runs during a write finds no module.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "unwind/tables.h"

namespace granary::unwind {

class ModuleRows {
 public:
  bool Find(uintptr_t pc, Tables* tables) const noexcept;
  // True if the list has changed.
  bool Refresh() noexcept;

 private:
  static constexpr size_t kMost = 512;

  struct Row {
    std::atomic<uintptr_t> begin, end, header;
  };
  struct Visit;

  static int Add(void* info, size_t size, void* visit) noexcept;

  std::atomic<bool> busy_{false};
  std::atomic<uint32_t> version_{0};  // odd while rows are written
  std::atomic<size_t> count_{0};
  unsigned long long changes_ = 0;
  Row row_[kMost];
};

extern ModuleRows module_rows __attribute__((visibility("hidden")));

}  // namespace granary::unwind
