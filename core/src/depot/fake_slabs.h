// A ledger in place of the slabs: an object is a number, fetched once and returned once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>

#include "base/check.h"
#include "base/units.h"
#include "sizes/size_classes.h"

namespace granary {

class FakeLedger {
 public:
  size_t Fetch(SizeClass c, void** to, size_t n) noexcept {
    std::lock_guard hold(mutex_);
    ++fetches_;
    size_t got = 0;
    for (; got < n && out_.size() < limit_; ++got) {
      to[got] = reinterpret_cast<void*>(++last_ * 4096 + c);
      out_.insert(AddressOf(to[got]));
    }
    return got;
  }

  void Return(SizeClass c, void* const* from, size_t n) noexcept {
    std::lock_guard hold(mutex_);
    ++returns_;
    for (size_t i = 0; i < n; ++i) {
      GRANARY_CHECK(AddressOf(from[i]) % 4096 == c && out_.erase(AddressOf(from[i])) == 1);
    }
  }

  // The maximum number of objects that are fetched and not returned.
  void SetLimit(size_t limit) { limit_ = limit; }

  bool IsOut(const void* p) const { return out_.count(AddressOf(p)) == 1; }
  size_t out() const { return out_.size(); }
  size_t fetches() const { return fetches_; }
  size_t returns() const { return returns_; }

 private:
  std::mutex mutex_;
  std::set<uintptr_t> out_;
  uintptr_t last_ = 0;
  size_t limit_ = ~size_t{0};
  size_t fetches_ = 0, returns_ = 0;
};

}  // namespace granary
