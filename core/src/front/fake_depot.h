// A depot without magazines: it fetches each batch from the ledger.
#pragma once

#include "depot/fake_slabs.h"

namespace granary {

class FakeDepot {
 public:
  static constexpr size_t kMagazine = 62;

  static constexpr size_t BatchOf(SizeClass c) {
    const size_t fit = 32 * kKiB / kClassSize[c];
    return fit < 1 ? 1 : fit > kMagazine ? kMagazine : fit;
  }
  size_t Fetch(SizeClass c, void** to, size_t n) noexcept {
    GRANARY_CHECK(n >= 1 && n <= kMagazine);
    return ledger.Fetch(c, to, n);
  }
  void Return(SizeClass c, void* const* from, size_t n) noexcept {
    GRANARY_CHECK(n <= kMagazine);
    if (n > 0) ledger.Return(c, from, n);
  }
  size_t FetchSome(SizeClass c, void** to, size_t n) noexcept { return Fetch(c, to, n); }
  void ReturnSome(SizeClass c, void* const* from, size_t n) noexcept { Return(c, from, n); }

  FakeLedger ledger;
};

}  // namespace granary
