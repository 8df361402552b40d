// The memory of a module's tables, read within its bounds and only where that does not fault,
// whatever the tables contain. The caller knows that no thread unmaps the module meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/units.h"
#include "os/linux.h"

namespace granary::unwind {

class TableMemory {
 public:
  TableMemory(uintptr_t begin, uintptr_t end) noexcept : begin_(begin), end_(end) {}

  bool Copy(uintptr_t from, void* to, size_t bytes) noexcept {
    if (from < begin_ || from > end_ || bytes > end_ - from) return false;
    if (bytes == 0) return true;
    const uintptr_t last = (from + bytes - 1) / kMinOsPage;
    for (uintptr_t page = from / kMinOsPage; page <= last; ++page) {
      if (page == page_) continue;
      if (!Linux::IsReadable(reinterpret_cast<const void*>(page * kMinOsPage))) return false;
      page_ = page;
    }
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return true;
  }

  template <class T>
  bool Get(uintptr_t from, T* value) noexcept {
    return Copy(from, value, sizeof(T));
  }

  uintptr_t end() const { return end_; }

 private:
  uintptr_t begin_, end_;
  uintptr_t page_ = ~uintptr_t{0};
};

}  // namespace granary::unwind
