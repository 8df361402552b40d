#include "profiler/guard_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "base/fake_die.h"
#include "pages/fake_pages.h"

namespace granary::profiler {
namespace {

using Pool = GuardPool<FakeOs>;
constexpr uintptr_t kFrames[] = {10, 20, 30};

struct Fixture {
  FakePages pages;
  Pool pool;
  const size_t page = FakeOs::PageSize();
  Fixture() { EXPECT_TRUE(pool.Init(pages.metadata, page)); }
  char* Make(size_t size) { return static_cast<char*>(pool.Allocate(size, 7, kFrames, 3)); }
  bool Free(char* p) { return pool.Free(*pool.LiveAt(p), 8, kFrames, 2); }
};

TEST(GuardPool, AnObjectHasAGuardOnEitherSide) {
  Fixture f;
  for (const size_t size : {size_t{1}, size_t{40}, size_t{1000}, f.page}) {
    char* const p = f.Make(size);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(AddressOf(p) % 16, 0u);
    std::memset(p, 1, size);
    EXPECT_DEATH(*static_cast<volatile char*>(p + RoundUp(size, 16)) = 1, "");
    EXPECT_DEATH((void)*static_cast<volatile char*>(p - f.page), "");
    EXPECT_EQ(f.pool.LiveAt(p)->size, size);
    EXPECT_EQ(f.pool.LiveAt(p + 16), nullptr);
    EXPECT_TRUE(f.Free(p));
    EXPECT_DEATH((void)*static_cast<volatile char*>(p), "");
  }
  EXPECT_EQ(f.Make(f.page + 1), nullptr);
  EXPECT_EQ(f.Make(0), nullptr);
}

TEST(GuardPool, EveryOtherRoundAnObjectBeginsBehindItsGuard) {
  Fixture f;
  for (size_t i = 0; i < Pool::kSlots; ++i) f.Free(f.Make(40));
  char* const p = f.Make(40);
  EXPECT_EQ(AddressOf(p) % f.page, 0u);
  EXPECT_DEATH(*static_cast<volatile char*>(p - 1) = 1, "");
}

TEST(GuardPool, KeepsTheStacks) {
  Fixture f;
  char* const p = f.Make(40);
  f.Free(p);
  const GuardedObject* const o = f.pool.NearestTo(p + 5);
  ASSERT_NE(o, nullptr);
  EXPECT_EQ(o->p, p);
  EXPECT_EQ(o->state.load(), GuardedObject::State::kFreed);
  EXPECT_EQ(o->allocated.thread, 7u);
  EXPECT_EQ(o->allocated.depth, 3u);
  EXPECT_EQ(o->allocated.frames[2], 30u);
  EXPECT_EQ(o->freed.thread, 8u);
  EXPECT_EQ(o->freed.depth, 2u);
}

TEST(GuardPool, AFreedPageIsUsedAgainAfterAllOthers) {
  Fixture f;
  char* const first = f.Make(f.page);
  f.Free(first);
  for (size_t i = 1; i < Pool::kSlots; ++i) {
    char* const p = f.Make(f.page);
    ASSERT_NE(p, first);
    f.Free(p);
  }
  char* const again = f.Make(f.page);
  EXPECT_EQ(again, first);
  EXPECT_EQ(again[100], 0) << "it was purged";
}

TEST(GuardPool, AFullPoolRefuses) {
  Fixture f;
  std::set<char*> live;
  for (size_t i = 0; i < Pool::kSlots; ++i) live.insert(f.Make(16));
  EXPECT_EQ(live.size(), Pool::kSlots);
  EXPECT_EQ(live.count(nullptr), 0u);
  EXPECT_EQ(f.Make(16), nullptr);
}

TEST(GuardPool, AGuardBelongsToTheCloserNeighbour) {
  Fixture f;
  char* const a = f.Make(48);  // ends where the guard begins
  char* const b = f.Make(48);
  char* const guard = a + 48;
  EXPECT_EQ(f.pool.NearestTo(guard)->p, a);
  EXPECT_EQ(f.pool.NearestTo(b - 1)->p, b);
  EXPECT_EQ(f.pool.NearestTo(a - f.page)->p, a) << "nothing lies before it";
  int local;
  EXPECT_FALSE(f.pool.Holds(&local));
  EXPECT_TRUE(f.pool.Holds(a) && f.pool.Holds(guard));
}

TEST(GuardPool, FindsAWriteIntoTheMargin) {
  Fixture f;
  char* const p = f.Make(41);
  EXPECT_TRUE(Pool::MarginIsWhole(*f.pool.LiveAt(p)));
  p[41] = 0;
  EXPECT_FALSE(Pool::MarginIsWhole(*f.pool.LiveAt(p)));
}

TEST(GuardPool, OnlyOneThreadFrees) {
  Fixture f;
  for (int round = 0; round < 200; ++round) {
    char* const p = f.Make(40);
    GuardedObject* const o = f.pool.LiveAt(p);
    std::atomic<int> freed{0};
    std::thread other([&] { freed += f.pool.Free(*o, 1, kFrames, 1); });
    freed += f.pool.Free(*o, 2, kFrames, 1);
    other.join();
    ASSERT_EQ(freed.load(), 1);
  }
}

TEST(GuardPool, WithoutMemoryThereIsNone) {
  FakePages pages;
  Pool pool;
  FakeOs::RefuseMap(0, kNever);
  EXPECT_FALSE(pool.Init(pages.metadata, FakeOs::PageSize()));
  EXPECT_FALSE(pool.Holds(&pages));
}

}  // namespace
}  // namespace granary::profiler
