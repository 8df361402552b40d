#include "hardened/cpu_shelves.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace granary::hardened {
namespace {

constexpr size_t kIndex = 3;
constexpr SizeClass kSmall = 4, kOther = 5;

void* At(uintptr_t i) { return reinterpret_cast<void*>(i * 16); }

// This thread is on the CPU of kIndex, whose cache has no list but words.
class Shelves : public testing::Test {
 protected:
  Shelves() {
    Random::Seed(1);
    area.concurrency_id = kIndex;
    thread_area =
        reinterpret_cast<uintptr_t>(&area) - reinterpret_cast<uintptr_t>(&anchor.unregistered);
    anchor.cache[kUnregisteredIndices + kIndex] = words;
    EXPECT_EQ(CurrentIndex(), static_cast<int>(kIndex));
  }
  ~Shelves() override {
    anchor.cache[kUnregisteredIndices + kIndex] = nullptr;
    thread_area = before;
  }

  // The object that leaves.
  void* Exchange(SizeClass c, void* p) {
    void* out = nullptr;
    EXPECT_TRUE(shelves->Exchange(kIndex, c, p, &out));
    return out;
  }
  std::multiset<void*> Waiting(SizeClass of) {
    std::multiset<void*> waiting;
    shelves->ForEachSlot([&](SizeClass c, uint64_t& slot) {
      if (c == of && slot != 0) waiting.insert(reinterpret_cast<void*>(slot));
    });
    return waiting;
  }

  const uintptr_t before = thread_area;
  RestartArea area;
  CacheWords words[kHeaders] = {};
  std::unique_ptr<CpuShelves::Shelf> shelf{new CpuShelves::Shelf{}};
  std::unique_ptr<CpuShelves> shelves{new CpuShelves};
};

TEST_F(Shelves, ACpuWithoutAShelfRefuses) {
  void* out;
  EXPECT_FALSE(shelves->HasShelf(kIndex));
  EXPECT_FALSE(shelves->Exchange(kIndex, kSmall, At(1), &out));
  EXPECT_TRUE(shelves->Add(kIndex, shelf.get()));
  EXPECT_TRUE(shelves->HasShelf(kIndex));
  EXPECT_FALSE(shelves->Add(kIndex, shelf.get())) << "it has one";
  EXPECT_EQ(Exchange(kSmall, At(1)), nullptr);
}

TEST_F(Shelves, EachObjectLeavesOnce) {
  shelves->Add(kIndex, shelf.get());
  std::multiset<void*> out;
  for (uintptr_t i = 1; i <= 10000; ++i) {
    if (void* const p = Exchange(kSmall, At(i)); p != nullptr) out.insert(p);
  }
  const std::multiset<void*> waiting = Waiting(kSmall);
  EXPECT_GT(waiting.size(), 64u);
  out.insert(waiting.begin(), waiting.end());
  EXPECT_EQ(out.size(), 10000u);
  EXPECT_EQ(std::set<void*>(out.begin(), out.end()).size(), 10000u);
}

TEST_F(Shelves, ClassesDoNotMix) {
  shelves->Add(kIndex, shelf.get());
  for (SizeClass c = 1; CpuShelves::Has(c); ++c) {
    for (uintptr_t i = 0; i < 1000; ++i) Exchange(c, At(c * 1000 + i));
  }
  for (SizeClass c = 1; CpuShelves::Has(c); ++c) {
    for (void* const p : Waiting(c)) EXPECT_EQ(AddressOf(p) / 16 / 1000, c);
    EXPECT_GE(Waiting(c).size(), 8u);
  }
}

TEST_F(Shelves, TheOrderIsRandom) {
  shelves->Add(kIndex, shelf.get());
  std::set<uintptr_t> waits;
  for (uintptr_t i = 1; i <= 10000; ++i) {
    void* const p = Exchange(kSmall, At(i));
    if (p != nullptr) waits.insert(i - AddressOf(p) / 16);
  }
  EXPECT_GT(waits.size(), 100u);
}

TEST_F(Shelves, AStoppedCacheRefuses) {
  shelves->Add(kIndex, shelf.get());
  EXPECT_EQ(Exchange(kSmall, At(1)), nullptr);
  anchor.cache[kUnregisteredIndices + kIndex] = anchor.null_cache;
  for (uintptr_t i = 2; i <= 1000; ++i) {
    void* out;
    EXPECT_FALSE(shelves->Exchange(kIndex, kSmall, At(i), &out));
  }
  EXPECT_EQ(Waiting(kSmall), std::multiset<void*>{At(1)});
}

// The thread moves to another CPU between reading its index and the exchange.
TEST_F(Shelves, AThreadThatMovedChangesNothing) {
  static CacheWords elsewhere[kHeaders] = {};
  constexpr size_t kElsewhere = kIndex + 1;
  shelves->Add(kIndex, shelf.get());
  anchor.cache[kUnregisteredIndices + kElsewhere] = elsewhere;
  area.concurrency_id = kElsewhere;
  void* out;
  EXPECT_FALSE(shelves->Exchange(kIndex, kOther, At(1), &out));
  EXPECT_TRUE(Waiting(kOther).empty());
  anchor.cache[kUnregisteredIndices + kElsewhere] = nullptr;
}

}  // namespace
}  // namespace granary::hardened
