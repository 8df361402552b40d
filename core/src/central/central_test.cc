#include "central/central.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/fake_die.h"
#include "central/fake_central.h"

namespace granary {
namespace {

FakeInput InputOf(const std::vector<uint8_t>& bytes) { return {bytes.data(), bytes.size()}; }

std::vector<void*> Fetch(FakeSlabs& slabs, SizeClass c, size_t n) {
  std::vector<void*> objects(n);
  size_t got = 0;
  while (got < n) {
    const size_t more = slabs.central.Fetch(c, objects.data() + got, n - got);
    if (more == 0) break;
    got += more;
  }
  objects.resize(got);
  return objects;
}

// Inspects each queued slab once.
size_t InspectAll(FakeSlabs& slabs, SizeClass c) {
  return slabs.central.PurgePages(c, slabs.central.SlabsToInspect(c));
}

TEST(Central, AgreesWithItsModel) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    FakeSlabs slabs;
    CentralProgram program(slabs);
    const std::vector<uint8_t> bytes = BytesFrom(seed, 4000);
    program.Run(InputOf(bytes), 8);
    program.ReturnAll();
  }
}

TEST(Central, AgreesWithItsModelWhenTheSystemReleasesNothing) {
  FakeSlabs slabs;
  FakeOs::RefusePurge(0);
  CentralProgram program(slabs);
  const std::vector<uint8_t> bytes = BytesFrom(77, 4000);
  program.Run(InputOf(bytes), 8);
  program.ReturnAll();
  EXPECT_EQ(slabs.central.released_bytes(), 0u);
}

TEST(Central, StaysValidWhenAnyMapIsRefused) {
  const std::vector<uint8_t> bytes = BytesFrom(8, 600);
  for (const size_t count : {size_t{1}, size_t{3}, kNever}) {
    for (size_t refused = 0; refused < 6; ++refused) {
      FakeSlabs slabs;
      CentralProgram program(slabs);
      FakeOs::RefuseMap(refused, count);
      program.Run(InputOf(bytes), 8);
      FakeOs::AllowAll();
      program.Run(InputOf(bytes), 8);
      ASSERT_GT(program.live(), 0u);
      program.ReturnAll();
    }
  }
}

TEST(Central, EveryClassFetchesAndReturnsWholeSlabs) {
  FakeSlabs slabs;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    const size_t n = IsSmall(c) ? 2 * kSlabShape[c].objects + 1 : 3;
    const std::vector<void*> objects = Fetch(slabs, c, n);
    ASSERT_EQ(objects.size(), n);
    EXPECT_EQ(slabs.central.Stats(c).used_objects, n);
    slabs.central.Return(c, objects.data(), n);
    EXPECT_EQ(slabs.central.Stats(c).used_objects, 0u);
    EXPECT_LE(slabs.central.Stats(c).slabs, 1u) << "one empty slab is kept";
  }
  slabs.central.Verify();
  slabs.pages.heap.Verify();
}

TEST(Central, ABatchOpensNoSlabForItsRest) {
  FakeSlabs slabs;
  constexpr SizeClass kClass = ClassOf(4096);
  Fetch(slabs, kClass, kSlabShape[kClass].objects - 2);
  void* batch[8];
  EXPECT_EQ(slabs.central.Fetch(kClass, batch, 8), 2u);
  EXPECT_EQ(slabs.central.Fetch(kClass, batch, 8), 8u);
  EXPECT_EQ(slabs.central.Stats(kClass).slabs, 2u);
}

TEST(Central, IdlePagesAreReleasedAtTheSecondInspection) {
  FakeSlabs slabs;
  constexpr SizeClass kClass = ClassOf(1024);
  const std::vector<void*> objects = Fetch(slabs, kClass, kSlabShape[kClass].objects);
  for (void* p : objects) std::memset(p, 7, 1024);
  slabs.central.Return(kClass, objects.data() + 4, 8);  // two pages
  EXPECT_EQ(InspectAll(slabs, kClass), 0u) << "the first inspection";
  EXPECT_EQ(slabs.central.SlabsToInspect(kClass), 1u);
  EXPECT_EQ(InspectAll(slabs, kClass), 2 * kMinOsPage);
  EXPECT_EQ(slabs.central.released_bytes(), 2 * kMinOsPage);
  EXPECT_EQ(InspectAll(slabs, kClass), 0u) << "clean pages are not released again";
  for (size_t i = 4; i < 12; ++i) EXPECT_EQ(*static_cast<char*>(objects[i]), 0);
  EXPECT_EQ(*static_cast<char*>(objects[3]), 7);
  EXPECT_EQ(*static_cast<char*>(objects[12]), 7);
  const std::vector<void*> again = Fetch(slabs, kClass, 8);
  EXPECT_EQ(again[0], objects[4]) << "hidden objects are available again";
  slabs.central.Verify();
}

TEST(Central, FreePagesAreReleasedAtTheFirstInspection) {
  FakeSlabs slabs;
  constexpr SizeClass kClass = ClassOf(1024);
  const std::vector<void*> objects = Fetch(slabs, kClass, kSlabShape[kClass].objects);
  slabs.central.Return(kClass, objects.data() + 4, 4);
  EXPECT_EQ(slabs.central.Idlest(), kClass);
  EXPECT_EQ(slabs.central.PurgePages(kClass, 1, Central<FakeOs>::Eligible::kFreePages), kMinOsPage);
  EXPECT_EQ(slabs.central.SlabsToInspect(kClass), 0u);
  EXPECT_EQ(slabs.central.Idlest(), kNoClass) << "the queue is empty";
  slabs.central.Verify();
}

TEST(Central, ASlabThatEmptiesWhileItsPagesAreHiddenIsRetired) {
  FakeSlabs slabs;
  constexpr SizeClass kClass = ClassOf(1024);
  const size_t per_slab = kSlabShape[kClass].objects;
  std::vector<void*> objects = Fetch(slabs, kClass, 2 * per_slab);
  slabs.central.Return(kClass, objects.data() + per_slab,
                       1);  // so that the first slab is not the last one with free objects
  slabs.central.PurgePages(kClass, 1);
  slabs.central.Return(kClass, objects.data(), 8);
  FakeOs::DuringPurge([&] {
    slabs.central.Return(kClass, objects.data() + 8, per_slab - 8);
    EXPECT_EQ(slabs.central.Stats(kClass).slabs, 2u) << "some of its objects are hidden";
  });
  EXPECT_GT(slabs.central.PurgePages(kClass, 2, Central<FakeOs>::Eligible::kFreePages), 0u);
  EXPECT_EQ(slabs.central.Stats(kClass).slabs, 1u);
  slabs.central.Verify();
  slabs.pages.heap.Verify();
}

TEST(Central, PagesUsedBetweenInspectionsStay) {
  FakeSlabs slabs;
  constexpr SizeClass kClass = ClassOf(1024);
  const std::vector<void*> objects = Fetch(slabs, kClass, kSlabShape[kClass].objects);
  for (int round = 0; round < 4; ++round) {
    slabs.central.Return(kClass, objects.data(), 4);
    EXPECT_EQ(InspectAll(slabs, kClass), 0u);
    ASSERT_EQ(Fetch(slabs, kClass, 4).size(), 4u);
  }
}

TEST(Central, RetiredSlabsReturnTheirCleanPages) {
  FakeSlabs slabs;
  constexpr SizeClass kClass = ClassOf(1024);
  std::vector<void*> objects = Fetch(slabs, kClass, 2 * kSlabShape[kClass].objects);
  slabs.central.Return(kClass, objects.data() + 1, kSlabShape[kClass].objects - 1);
  InspectAll(slabs, kClass);
  InspectAll(slabs, kClass);
  const size_t before = slabs.pages.heap.dirty_bytes();
  // The second slab has a free object, so the first slab is retired when it is empty.
  slabs.central.Return(kClass, objects.data() + kSlabShape[kClass].objects, 1);
  slabs.central.Return(kClass, objects.data(), 1);
  EXPECT_EQ(slabs.central.Stats(kClass).slabs, 1u);
  EXPECT_EQ(slabs.pages.heap.dirty_bytes(), before + kGranule) << "only its first page was in use";
}

TEST(Central, IsUsedTellsUsedObjectsFromFreeOnes) {
  FakeSlabs slabs;
  constexpr SizeClass kClass = ClassOf(48);
  const std::vector<void*> objects = Fetch(slabs, kClass, 3);
  EXPECT_TRUE(slabs.central.IsUsed(kClass, objects[1]));
  EXPECT_FALSE(slabs.central.IsUsed(kClass, static_cast<char*>(objects[1]) + 16));
  EXPECT_FALSE(slabs.central.IsUsed(kClass + 1, objects[1]));
  slabs.central.Return(kClass, &objects[1], 1);
  EXPECT_FALSE(slabs.central.IsUsed(kClass, objects[1]));
  EXPECT_TRUE(slabs.central.IsUsed(kClass, objects[2]));
}

class CentralDeathTest : public testing::Test {
 protected:
  void Return(SizeClass c, void* p) { slabs_.central.Return(c, &p, 1); }

  FakeSlabs slabs_;
};

TEST_F(CentralDeathTest, MisuseOfSmallObjectsEndsTheProgram) {
  for (const SizeClass c : {SizeClass{1}, ClassOf(48), ClassOf(1024), kNumSmall - 1}) {
    const std::vector<void*> objects = Fetch(slabs_, c, 3);
    EXPECT_DEATH(Return(c, static_cast<char*>(objects[1]) + 1), "misuse: free: unaligned");
    EXPECT_DEATH(Return(c + 1, objects[1]), "misuse: free: double free");
    slabs_.central.RequireUsed(c, objects[1], "realloc");
    EXPECT_DEATH(slabs_.central.RequireUsed(c, static_cast<char*>(objects[1]) + 1, "realloc"),
                 "misuse: realloc: unaligned");
    Return(c, objects[1]);
    EXPECT_DEATH(Return(c, objects[1]), "misuse: free: double free");
    EXPECT_DEATH(slabs_.central.RequireUsed(c, objects[1], "realloc"),
                 "misuse: realloc: double free");
    void* const twice[2] = {objects[0], objects[0]};
    EXPECT_DEATH(slabs_.central.Return(c, twice, 2), "misuse: free: double free");
  }
}

TEST_F(CentralDeathTest, TheRestAfterTheLastObjectIsNoObject) {
  constexpr SizeClass kClass = ClassOf(5632);
  const SlabShape& shape = kSlabShape[kClass];
  ASSERT_LE((shape.objects + 0u) * kClassSize[kClass] + 16, shape.bytes) << "there is a rest";
  const std::vector<void*> objects = Fetch(slabs_, kClass, 1);
  auto* const rest = static_cast<char*>(objects[0]) + shape.objects * kClassSize[kClass];
  EXPECT_DEATH(Return(kClass, rest), "misuse: free: unaligned");
}

TEST_F(CentralDeathTest, MisuseOfMediumObjectsEndsTheProgram) {
  for (const SizeClass c : {kNumSmall, SizeClass{kNumClasses - 1}}) {
    const std::vector<void*> objects = Fetch(slabs_, c, 1);
    EXPECT_DEATH(Return(c, static_cast<char*>(objects[0]) + 16), "misuse: free: unaligned");
    EXPECT_DEATH(Return(c, static_cast<char*>(objects[0]) + kGranule), "misuse: free: double free");
    Return(c, objects[0]);
    EXPECT_DEATH(Return(c, objects[0]), "misuse: free: double free");
  }
}

TEST_F(CentralDeathTest, ObjectsOfARetiredSlabWereFreedBefore) {
  constexpr SizeClass kClass = ClassOf(4096);
  const size_t per_slab = kSlabShape[kClass].objects;
  const std::vector<void*> objects = Fetch(slabs_, kClass, 2 * per_slab);
  slabs_.central.Return(kClass, objects.data(), objects.size());
  EXPECT_DEATH(Return(kClass, objects.back()), "misuse: free: double free");
  EXPECT_DEATH(Return(kClass, objects.front()), "misuse: free: double free");
}

// Three threads fetch and return objects while another releases pages.
TEST(Central, ThreadsShareItsClasses) {
  FakeSlabs slabs;
  constexpr SizeClass kClass = ClassOf(512);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        void* batch[50];
        const size_t got = slabs.central.Fetch(kClass, batch, 50);
        for (size_t i = 0; i < got; ++i) std::memset(batch[i], static_cast<int>(i), 512);
        for (size_t i = 0; i < got; ++i) {
          GRANARY_CHECK(static_cast<char*>(batch[i])[511] == static_cast<char>(i));
        }
        slabs.central.Return(kClass, batch, got);
      }
    });
  }
  for (int round = 0; round < 300; ++round) slabs.central.PurgePages(kClass, 4);
  for (std::thread& thread : threads) thread.join();
  slabs.central.Verify();
  slabs.pages.heap.Verify();
  EXPECT_EQ(slabs.central.Stats(kClass).used_objects, 0u);
}

TEST(CentralWithGuards, TheLastPageOfASlabHasNoObjectAndNoAccess) {
  FakeSlabs slabs;
  slabs.pages.heap.SetGuards(true);
  slabs.central.SetGuards(true);
  for (const SizeClass c : {ClassOf(16), ClassOf(600), ClassOf(4608), ClassOf(40000)}) {
    const size_t count = slabs.central.ObjectsPerSlab(c);
    std::vector<void*> objects = Fetch(slabs, c, count);
    ASSERT_EQ(objects.size(), count);
    char* const base = static_cast<char*>(objects[0]);
    const size_t bytes = kSlabShape[c].bytes;
    for (void* p : objects) {
      EXPECT_LE(static_cast<char*>(p) + kClassSize[c], base + bytes - kMinOsPage);
      std::memset(p, 1, kClassSize[c]);
    }
    EXPECT_EQ(slabs.central.Stats(c).slabs, 1u);
    EXPECT_EQ(slabs.central.Stats(c).used_objects, count);
    EXPECT_DEATH(*static_cast<volatile char*>(base + bytes - kMinOsPage) = 1, "");
    slabs.central.Return(c, objects.data(), objects.size());
    slabs.central.Verify();
  }
}

TEST(CentralWithGuards, FreeSpansHaveNoAccessAndComeBackZero) {
  FakeSlabs slabs;
  slabs.pages.heap.SetGuards(true);
  slabs.central.SetGuards(true);
  const SizeClass c = ClassOf(1024);
  const size_t count = slabs.central.ObjectsPerSlab(c);
  std::vector<void*> objects = Fetch(slabs, c, 2 * count);
  for (void* p : objects) std::memset(p, 1, 1024);
  slabs.central.Return(c, objects.data(), objects.size());  // one empty slab stays
  EXPECT_EQ(slabs.central.Stats(c).slabs, 1u);
  EXPECT_EQ(slabs.pages.heap.dirty_bytes(), 0u);
  size_t accessible = 0;
  for (size_t at : {size_t{0}, count}) {
    accessible += slabs.central.OccupancyAt(objects[at]).slab != nullptr;
  }
  EXPECT_EQ(accessible, 1u);
  const size_t gone = slabs.central.OccupancyAt(objects[0]).slab == nullptr ? 0 : count;
  EXPECT_DEATH((void)*static_cast<volatile char*>(objects[gone]), "");
}

}  // namespace
}  // namespace granary
