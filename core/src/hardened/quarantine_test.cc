#include "hardened/quarantine.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace granary::hardened {
namespace {

struct Slots {
  std::atomic<void*> slots[64] = {};
  Quarantine quarantine;
  explicit Slots(uint64_t seed) {
    Random::Seed(seed);
    quarantine.Bind(slots, 64);
  }
};

void* At(uintptr_t i) { return reinterpret_cast<void*>(i); }

TEST(Quarantine, EachObjectLeavesOnce) {
  Slots s(1);
  std::multiset<void*> out;
  for (uintptr_t i = 1; i <= 10000; ++i) {
    if (void* const p = s.quarantine.Exchange(At(i)); p != nullptr) out.insert(p);
  }
  std::multiset<void*> seen, taken;
  s.quarantine.ForEach([&](void* p) { seen.insert(p); });
  s.quarantine.TakeAll([&](void* p) { taken.insert(p); });
  EXPECT_EQ(seen, taken);
  out.insert(taken.begin(), taken.end());
  EXPECT_EQ(out.size(), 10000u);
  EXPECT_EQ(std::set<void*>(out.begin(), out.end()).size(), 10000u);
  s.quarantine.TakeAll([](void*) { FAIL() << "it is empty"; });
}

TEST(Quarantine, NeverReturnsTheObjectThatEnters) {
  Slots s(2);
  for (uintptr_t i = 1; i <= 10000; ++i) EXPECT_NE(s.quarantine.Exchange(At(i)), At(i));
}

// How long each of 10,000 objects waited, in frees.
std::vector<size_t> Waits(uint64_t seed) {
  Slots s(seed);
  std::vector<size_t> waits;
  for (uintptr_t i = 1; i <= 10000; ++i) {
    void* const p = s.quarantine.Exchange(At(i));
    if (p != nullptr) waits.push_back(i - reinterpret_cast<uintptr_t>(p));
  }
  return waits;
}

TEST(Quarantine, TheOrderIsRandom) {
  const std::vector<size_t> waits = Waits(3);
  size_t sum = 0, at_once = 0;
  for (const size_t wait : waits) {
    sum += wait;
    at_once += wait < 8;
  }
  EXPECT_GT(sum / waits.size(), 40u);  // 64 slots: a wait of 64 frees in the mean
  EXPECT_LT(sum / waits.size(), 90u);
  EXPECT_LT(at_once, waits.size() / 4);
  EXPECT_GT(std::set<size_t>(waits.begin(), waits.end()).size(), 100u);
  EXPECT_NE(waits, Waits(4));
}

TEST(Quarantine, ManyThreadsLoseNothing) {
  Slots s(5);
  std::vector<std::vector<void*>> out(4);
  std::vector<std::thread> threads;
  for (uintptr_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uintptr_t i = 1; i <= 20000; ++i) {
        void* const p = s.quarantine.Exchange(At(i * 4 + t));
        if (p != nullptr) out[t].push_back(p);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::set<void*> all;
  size_t count = 0;
  const auto add = [&](void* p) { ++count, all.insert(p); };
  for (const auto& of : out) {
    for (void* p : of) add(p);
  }
  s.quarantine.TakeAll(add);
  EXPECT_EQ(count, 80000u);
  EXPECT_EQ(all.size(), 80000u);
}

}  // namespace
}  // namespace granary::hardened
