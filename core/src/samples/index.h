// The map from addresses to rows of samples. Every free in a granule that holds a sampled object
// searches it without a lock; changes happen under the profile's lock. A word is only ever filled
// or turned into a tombstone. A rebuilt table moves to the other of two places, so that a thread
// that still searches the old table finds its old content, or finds nothing and detects that the
// view changed.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "samples/table.h"

namespace granary::samples {

class Index {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};
  // A quarter of the rows stays free for tombstones between two rebuilds of the largest table.
  static constexpr size_t kMostLive = kMostSamples / 4 * 3;

  // `places` holds 2 * Place::kIndexWords words of zero, and is never unmapped.
  void Begin(std::atomic<uint64_t>* places) {
    places_.store(places, std::memory_order_relaxed);
    Show(0, kFirst);
  }
  // Empties the index. The caller may then clear the places.
  void End() {
    view_.store((view_.load(std::memory_order_relaxed) | (kTurn - 1)) + 1,
                std::memory_order_release);
    used_ = live_ = 0;
  }

  // The row of the sample at p, or kNone. No other thread removes the sample meanwhile.
  uint32_t Find(uintptr_t p) const {
    for (uint64_t view = view_.load(std::memory_order_acquire);;) {
      if (WordsIn(view) == 0) return kNone;
      const uint32_t row = FindIn(TableOf(view), WordsIn(view) - 1, p);
      if (row != kNone) return row;
      const uint64_t now = view_.load(std::memory_order_acquire);
      if (now == view) return kNone;
      view = now;
    }
  }

  // The caller of the functions below holds the lock.
  bool Full() const { return live_ >= kMostLive; }
  void Insert(uintptr_t p, uint32_t row) {
    if ((used_ + 1) * 2 > WordsIn(view_.load(std::memory_order_relaxed))) Rebuild();
    const uint64_t view = view_.load(std::memory_order_relaxed);
    PutIn(TableOf(view), WordsIn(view) - 1, uint64_t{p >> 3} << kRowBits | row);
    ++used_;
    ++live_;
  }
  void Remove(uintptr_t p) {
    const uint64_t view = view_.load(std::memory_order_relaxed);
    const size_t mask = WordsIn(view) - 1;
    Words* const table = TableOf(view);
    for (size_t at = Hash(p) & mask;; at = (at + 1) & mask) {
      const uint64_t word = table[at].load(std::memory_order_relaxed);
      if (word == 0) return;
      if (AddressIn(word) != p) continue;
      table[at].store(kTombstone, std::memory_order_relaxed);
      --live_;
      return;
    }
  }

 private:
  using Words = std::atomic<uint64_t>;
  static constexpr unsigned kRowBits = 18;
  static constexpr uint64_t kTombstone = 1;
  static constexpr size_t kFirst = 512;
  // A view: the logarithm of the number of words (0: there is no table), the place, and above them
  // a number that makes the view differ from all earlier views.
  static constexpr uint64_t kSecondPlace = 64, kTurn = 128;
  static_assert(size_t{1} << kRowBits == kMostSamples);
  static_assert(kAddressBits - 3 + kRowBits <= 64);

  static size_t WordsIn(uint64_t view) {
    const unsigned logarithm = view % kSecondPlace;
    return logarithm == 0 ? 0 : size_t{1} << logarithm;
  }
  Words* TableOf(uint64_t view) const {
    Words* const first = places_.load(std::memory_order_relaxed);
    return (view & kSecondPlace) != 0 ? first + Place::kIndexWords : first;
  }
  void Show(uint64_t place, size_t words) {
    const uint64_t turn = (view_.load(std::memory_order_relaxed) | (kTurn - 1)) + 1;
    view_.store(turn | place | static_cast<uint64_t>(std::countr_zero(words)),
                std::memory_order_release);
  }

  static uintptr_t AddressIn(uint64_t word) { return (word >> kRowBits) << 3; }
  static size_t Hash(uintptr_t p) { return ((p >> 3) * 0x9e3779b97f4a7c15u) >> 40; }

  static uint32_t FindIn(const Words* table, size_t mask, uintptr_t p) {
    size_t at = Hash(p) & mask;
    for (size_t seen = 0; seen <= mask; ++seen, at = (at + 1) & mask) {
      const uint64_t word = table[at].load(std::memory_order_acquire);
      if (word == 0) return kNone;
      if (AddressIn(word) == p) return static_cast<uint32_t>(word & (kMostSamples - 1));
    }
    return kNone;
  }
  static void PutIn(Words* table, size_t mask, uint64_t word) {
    size_t at = Hash(AddressIn(word)) & mask;
    while (table[at].load(std::memory_order_relaxed) != 0) at = (at + 1) & mask;
    table[at].store(word, std::memory_order_release);
  }

  // Rebuilds the table without tombstones, and larger if the live samples fill a quarter.
  void Rebuild() {
    const uint64_t view = view_.load(std::memory_order_relaxed);
    const uint64_t place = (view & kSecondPlace) ^ kSecondPlace;
    const Words* const from = TableOf(view);
    Words* const to = TableOf(place);
    const size_t before = WordsIn(view);
    size_t words = before;
    while (live_ * 4 >= words && words < Place::kIndexWords) words *= 2;
    for (size_t i = 0; i < words; ++i) to[i].store(0, std::memory_order_relaxed);
    for (size_t i = 0; i < before; ++i) {
      const uint64_t word = from[i].load(std::memory_order_relaxed);
      if (word != 0 && word != kTombstone) PutIn(to, words - 1, word);
    }
    Show(place, words);
    used_ = live_;
  }

  std::atomic<uint64_t> view_{0};
  std::atomic<Words*> places_{nullptr};
  size_t used_ = 0, live_ = 0;  // words that are not zero; words that are not tombstones either
};

}  // namespace granary::samples
