// A cache of rules for any number of concurrent threads and signal handlers, without a lock. An
// entry that two writers wrote partly does not match its own checksum, and is a miss.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "unwind/rule.h"

namespace granary::unwind {

class RuleCache {
 public:
  // `key` identifies the address and the module that was loaded there. It is not 0.
  bool Find(uint64_t key, Rule* rule) const noexcept {
    for (const Entry& entry : bucket_[BucketOf(key)].entry) {
      Words words;
      uint64_t check = entry.check.load(std::memory_order_relaxed);
      for (size_t i = 0; i < kWords; ++i) {
        words.word[i] = entry.word[i].load(std::memory_order_relaxed);
        check ^= words.word[i];
      }
      if (check != key) continue;
      *rule = std::bit_cast<Rule>(words);
      return true;
    }
    return false;
  }

  // Replaces one of the two entries of the bucket, each in turn.
  void Insert(uint64_t key, const Rule& rule) noexcept {
    const uint32_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
    GrowAfter(turn);
    Entry& entry = bucket_[BucketOf(key)].entry[turn % kWays];
    const Words words = std::bit_cast<Words>(rule);
    uint64_t check = key;
    for (size_t i = 0; i < kWords; ++i) {
      entry.word[i].store(words.word[i], std::memory_order_relaxed);
      check ^= words.word[i];
    }
    entry.check.store(check, std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kWords = sizeof(Rule) / sizeof(uint64_t);
  static constexpr size_t kWays = 2;
  static constexpr size_t kBuckets = 2048, kFirstBuckets = 128;

  struct Words {
    uint64_t word[kWords];
  };
  struct Entry {
    std::atomic<uint64_t> check{0};
    std::atomic<uint64_t> word[kWords]{};
  };
  struct alignas(kCacheLine) Bucket {
    Entry entry[kWays];
  };

  size_t BucketOf(uint64_t key) const noexcept {
    const size_t used = kFirstBuckets << doubled_.load(std::memory_order_relaxed);
    return (key * 0x9e3779b97f4a7c15u >> 32) & (used - 1);
  }

  // Few rules stay on few pages. A rule that is no longer in its bucket is derived again.
  void GrowAfter(uint32_t inserted) noexcept {
    uint32_t doubled = doubled_.load(std::memory_order_relaxed);
    const size_t used = kFirstBuckets << doubled;
    if (used == kBuckets || inserted < used * kWays) return;
    doubled_.compare_exchange_strong(doubled, doubled + 1, std::memory_order_relaxed);
  }

  std::atomic<uint32_t> turn_{0};
  std::atomic<uint32_t> doubled_{0};  // number of times the buckets in use were doubled
  Bucket bucket_[kBuckets];
};

}  // namespace granary::unwind
