#include "heap/empty_objects.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/fake_die.h"
#include "os/fake_os.h"

namespace granary::heap {
namespace {

using Empties = EmptyObjects<FakeOs>;

struct Fixture {
  Empties empties;
  Fixture() { FakeOs::Reset(); }
};

TEST(EmptyObjects, AreDistinctAndInaccessible) {
  Fixture f;
  std::set<void*> seen;
  for (size_t i = 0; i < Empties::kMost; ++i) {
    void* const p = f.empties.Allocate();
    ASSERT_NE(p, nullptr);
    ASSERT_EQ(AddressOf(p) % Empties::kStep, 0u);
    ASSERT_TRUE(f.empties.Holds(p) && f.empties.IsUsed(p));
    ASSERT_TRUE(seen.insert(p).second);
  }
  EXPECT_EQ(f.empties.Allocate(), nullptr);
  EXPECT_DEATH(*static_cast<volatile char*>(*seen.begin()) = 1, "");
  EXPECT_DEATH((void)*static_cast<volatile char*>(*seen.rbegin()), "");
}

TEST(EmptyObjects, AnAddressReturnsAfterAllOthers) {
  Fixture f;
  void* const p = f.empties.Allocate();
  EXPECT_TRUE(f.empties.Free(p));
  for (size_t i = 1; i < Empties::kMost; ++i) {
    void* const q = f.empties.Allocate();
    ASSERT_NE(q, p);
    ASSERT_TRUE(f.empties.Free(q));
  }
  EXPECT_EQ(f.empties.Allocate(), p);
}

TEST(EmptyObjects, RefuseWhatIsNotInUse) {
  Fixture f;
  char* const p = static_cast<char*>(f.empties.Allocate());
  EXPECT_FALSE(f.empties.Free(p + 1));
  EXPECT_FALSE(f.empties.IsUsed(p + 8));
  EXPECT_TRUE(f.empties.Free(p));
  EXPECT_FALSE(f.empties.Free(p));
  int local;
  EXPECT_FALSE(f.empties.Holds(&local));
  EXPECT_FALSE(f.empties.Holds(nullptr));
}

TEST(EmptyObjects, AreNoneWhereTheSystemRefuses) {
  Fixture f;
  FakeOs::RefuseMap(0, kNever);
  EXPECT_EQ(f.empties.Allocate(), nullptr);
  EXPECT_FALSE(f.empties.Holds(&f));
}

// A program that keeps many of them must not search all words at each call.
TEST(EmptyObjects, AreNoneBehindManyInUse) {
  Fixture f;
  std::vector<void*> all;
  for (size_t i = 0; i < Empties::kMost; ++i) all.push_back(f.empties.Allocate());
  const size_t far = (Empties::kTries + 1) * 64;
  ASSERT_TRUE(f.empties.Free(all[far]));
  EXPECT_EQ(f.empties.Allocate(), nullptr);
  EXPECT_EQ(f.empties.Allocate(), all[far]);
}

}  // namespace
}  // namespace granary::heap
