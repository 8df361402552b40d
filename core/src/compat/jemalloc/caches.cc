#include "compat/jemalloc/caches.h"

#include <atomic>
#include <bit>
#include <cstdint>

namespace granary::jemalloc {
namespace {

constexpr size_t kMost = 4093;  // the maximum that the flags can name
constexpr size_t kWords = (kMost + 63) / 64;
std::atomic<uint64_t> used[kWords];

uint64_t BitOf(size_t id) { return uint64_t{1} << (id % 64); }

}  // namespace

bool CreateCache(unsigned* id) noexcept {
  for (size_t w = 0; w < kWords; ++w) {
    uint64_t word = used[w].load();
    while (~word != 0) {
      const size_t bit = static_cast<size_t>(std::countr_zero(~word));
      if (w * 64 + bit >= kMost) return false;
      if (!used[w].compare_exchange_weak(word, word | uint64_t{1} << bit)) continue;
      *id = static_cast<unsigned>(w * 64 + bit);
      return true;
    }
  }
  return false;
}

bool CacheExists(size_t id) noexcept {
  return id < kMost && (used[id / 64].load() & BitOf(id)) != 0;
}

bool DestroyCache(size_t id) noexcept {
  return id < kMost && (used[id / 64].fetch_and(~BitOf(id)) & BitOf(id)) != 0;
}

}  // namespace granary::jemalloc
