#include "pages/metadata.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "base/fake_die.h"
#include "os/fake_os.h"
#include "pages/page_map.h"

namespace granary {
namespace {

class MetadataTest : public testing::Test {
 protected:
  MetadataTest() { FakeOs::Reset(); }
  ~MetadataTest() override { FakeOs::Reset(); }

  Metadata<FakeOs> metadata_;
};

bool IsZero(const void* p, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (static_cast<const char*>(p)[i] != 0) return false;
  }
  return true;
}

TEST_F(MetadataTest, GivesZeroedAlignedMemoryNewAndRecycled) {
  std::set<void*> seen;
  for (int round = 0; round < 3; ++round) {
    for (size_t bytes = 1; bytes <= Metadata<FakeOs>::kMaxRecycled; bytes += 61) {
      void* const p = metadata_.Allocate(bytes);
      ASSERT_NE(p, nullptr);
      ASSERT_TRUE(IsAligned(AddressOf(p), kCacheLine) && IsZero(p, bytes));
      std::memset(p, 7, bytes);
      seen.insert(p);
      metadata_.Free(p, bytes);
    }
  }
  EXPECT_EQ(seen.size(), Metadata<FakeOs>::kMaxRecycled / kCacheLine) << "one a size, recycled";
}

TEST_F(MetadataTest, LargeRequestsGetChunksOfTheirOwn) {
  for (const size_t bytes : {kMiB / 2, kMiB, 3 * kMiB, 10 * kMiB}) {
    auto* const p = static_cast<char*>(metadata_.Allocate(bytes));
    ASSERT_NE(p, nullptr);
    p[0] = p[bytes - 1] = 1;
  }
  EXPECT_LE(metadata_.mapped(), FakeOs::MappedBytes());
}

TEST_F(MetadataTest, GivesPagesOfFreeStructuresBackAndUsesThemAgain) {
  std::vector<char*> all;
  const auto fill = [&] {
    for (int i = 0; i < 12000; ++i) {
      const size_t bytes = 64u * (1 + i % 8);
      auto* const p = static_cast<char*>(metadata_.Allocate(bytes));
      ASSERT_NE(p, nullptr);
      ASSERT_TRUE(IsZero(p, bytes));
      std::memset(p, 1 + i % 8, bytes);
      all.push_back(p);
    }
  };
  const auto empty = [&](int step) {
    for (int i = 0; i < 12000; i += step) {
      if (all[i] == nullptr) continue;
      for (size_t at = 0; at < 64u * (1 + i % 8); ++at) ASSERT_EQ(all[i][at], 1 + i % 8);
      metadata_.Free(all[i], 64u * (1 + i % 8));
      all[i] = nullptr;
    }
  };
  for (int round = 0; round < 4; ++round) {
    fill();
    empty(2);
    EXPECT_LT(metadata_.PurgeFree(), kMiB) << "what lives is nearly everywhere";
    empty(1);
    all.clear();
    EXPECT_GE(metadata_.PurgeFree(), 3 * kMiB);
    EXPECT_EQ(metadata_.PurgeFree(), 0u);
    EXPECT_EQ(metadata_.used(), 0u);
    EXPECT_LE(metadata_.mapped(), 5 * kMiB);
  }
  // A system that purges nothing: they are zeroed. A system that maps nothing: they are reused.
  fill();
  empty(1);
  all.clear();
  FakeOs::RefusePurge(0);
  EXPECT_EQ(metadata_.PurgeFree(), 0u);
  FakeOs::RefuseMap(0, kNever);
  fill();
  auto* const p = static_cast<char*>(metadata_.Allocate(64 * kKiB));
  EXPECT_TRUE(p == nullptr || IsZero(p, 64 * kKiB));
}

// Redis kept 3 MiB of descriptors resident this way: a few survived the first purge, and each kept
// its page for ever.
TEST_F(MetadataTest, PagesThatTheLastToGoSharedGoToo) {
  std::vector<void*> all, last;
  for (size_t had = 0; had < 4 * kMiB; had += 128) all.push_back(metadata_.Allocate(128));
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % 64 == 0) {
      last.push_back(all[i]);
    } else {
      metadata_.Free(all[i], 128);
    }
  }
  EXPECT_GE(metadata_.PurgeFree(0), kMiB) << "every second page, or nearly so";
  for (void* p : last) metadata_.Free(p, 128);
  EXPECT_GE(metadata_.PurgeFree(0), 7 * kMiB / 2);
  EXPECT_EQ(metadata_.used(), 0u);
}

TEST_F(MetadataTest, LiesOnHugePagesWhereItMay) {
  using Huge = Metadata<FakeOs>::Huge;
  metadata_.SetHuge(Huge::kBeyondFirst);
  for (size_t had = 0; had < 3 * kMiB; had += 4 * kKiB) metadata_.Allocate(4 * kKiB);
  EXPECT_EQ(metadata_.mapped(), 4 * kMiB);
  EXPECT_EQ(metadata_.mapped_huge(), 2 * kMiB);
  metadata_.SetHuge(Huge::kAll);
  auto* const p = static_cast<char*>(metadata_.Allocate(3 * kMiB));
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(IsZero(p, 3 * kMiB));
  EXPECT_EQ(metadata_.mapped_huge(), 6 * kMiB);
  ASSERT_TRUE(metadata_.Reserve(5 * kMiB));
  EXPECT_EQ(metadata_.mapped_huge(), metadata_.mapped() - 2 * kMiB);
  EXPECT_LE(metadata_.mapped_huge(), 12 * kMiB);
}

TEST_F(MetadataTest, HasNoHugePagesWhereTheyAreLarger) {
  FakeOs::SetPageSize(64 * kKiB);
  metadata_.SetHuge(Metadata<FakeOs>::Huge::kAll);
  ASSERT_NE(metadata_.Allocate(3 * kMiB), nullptr);
  EXPECT_EQ(metadata_.mapped_huge(), 0u);
}

TEST_F(MetadataTest, ReservesMuchInOneMapping) {
  ASSERT_TRUE(metadata_.Reserve(300 * kMiB));
  EXPECT_EQ(FakeOs::counts().map, 1u);
}

TEST_F(MetadataTest, HasNoHugePagesUnlessToldTo) {
  char* const p = static_cast<char*>(metadata_.Allocate(64));
  ASSERT_NE(p, nullptr);
  EXPECT_FALSE(FakeOs::MayBeHuge(reinterpret_cast<void*>(RoundDown(AddressOf(p), 64 * kKiB))))
      << "even where the system's setting is to use them always";
}

TEST_F(MetadataTest, WhatIsReservedCanBeHadWhenTheSystemRefuses) {
  ASSERT_NE(metadata_.Allocate(64), nullptr);
  ASSERT_TRUE(metadata_.Reserve(3 * kMiB));
  FakeOs::RefuseMap(0, kNever);
  for (size_t had = 0; had < 3 * kMiB; had += 512) {
    void* const p = metadata_.Allocate(512);
    ASSERT_NE(p, nullptr) << had;
    ASSERT_TRUE(IsZero(p, 512));
  }
  EXPECT_FALSE(metadata_.Reserve(4 * kMiB));
}

TEST_F(MetadataTest, SmallPiecesBecomeLargeOnesWhenTheSystemRefuses) {
  ASSERT_NE(metadata_.Allocate(64), nullptr);
  FakeOs::RefuseMap(0, kNever);
  std::vector<void*> pieces;
  for (size_t i = 0; void* p = metadata_.Allocate(i % 2 == 0 ? 64 : 192); ++i) pieces.push_back(p);
  EXPECT_EQ(metadata_.Allocate(4096), nullptr);
  // Every second one first, so that no two neighbours are in a list.
  for (const size_t odd : {1, 0}) {
    for (size_t i = odd; i < pieces.size(); i += 2)
      metadata_.Free(pieces[i], i % 2 == 0 ? 64 : 192);
  }
  size_t bytes = 0;
  for (void* p; (p = metadata_.Allocate(4096)) != nullptr; bytes += 4096) {
    ASSERT_TRUE(IsZero(p, 4096));
    std::memset(p, 1, 4096);
  }
  EXPECT_GT(bytes, pieces.size() * 128 - 2 * 4096) << "all of it was had again";
}

// Otherwise the metadata would take what the page heap left, and no thread could start.
TEST_F(MetadataTest, TheLastAddressSpaceIsLeftToTheProgram) {
  void* const freed = metadata_.Allocate(512);
  for (size_t had = 512; had + 1024 < kMiB; had += 64) ASSERT_NE(metadata_.Allocate(64), nullptr);
  const size_t mapped = metadata_.mapped();
  FakeOs::RefuseMap(1, kNever);  // one more chunk fits, and nothing beside it
  while (metadata_.Allocate(64) != nullptr) ASSERT_EQ(metadata_.mapped(), mapped);
  EXPECT_EQ(metadata_.mapped(), mapped);
  FakeOs::RefuseMap(1, kNever);
  metadata_.Free(freed, 512);
  EXPECT_EQ(metadata_.Allocate(64), freed) << "a larger piece is cut instead";
}

TEST_F(MetadataTest, RefusalLeavesItUsable) {
  FakeOs::RefuseMap(0, 1);
  EXPECT_EQ(metadata_.Allocate(64), nullptr);
  EXPECT_NE(metadata_.Allocate(64), nullptr);
}

TEST(PageMap, LooksUpEveryAddress) {
  FakeOs::Reset();
  auto map = std::make_unique<PageMap>();
  const uintptr_t top = uintptr_t{1} << kAddressBits;
  for (uintptr_t at = 1; at < top; at *= 2) {
    EXPECT_EQ(map->ClassAt(reinterpret_cast<void*>(at)), kNoClass);
    EXPECT_FALSE(map->Covers(reinterpret_cast<void*>(at)));
    EXPECT_EQ(map->TrackerAt(reinterpret_cast<void*>(at)), nullptr);
  }
  EXPECT_EQ(map->ClassAt(reinterpret_cast<void*>(top - 1)), kNoClass);
  EXPECT_FALSE(map->Covers(reinterpret_cast<void*>(top)));
  FakeOs::Reset();
}

TEST(PageMap, KnowsTheClassesOfWhatItCovers) {
  FakeOs::Reset();
  auto map = std::make_unique<PageMap>();
  // Across the border of two leaves.
  auto* const p = reinterpret_cast<char*>((uintptr_t{5} << kLeafShift) - 4 * kGranule);
  ASSERT_TRUE(map->Cover<FakeOs>(p, 8 * kGranule));
  auto* const slab = reinterpret_cast<Slab*>(uintptr_t{64});
  map->SetSlab(p, 8 * kGranule, 9, slab);
  for (size_t offset = 0; offset < 8 * kGranule; offset += 4096) {
    EXPECT_EQ(map->ClassAt(p + offset), 9u);
    EXPECT_EQ(map->SlabAt(p + offset), slab);
  }
  EXPECT_EQ(map->ClassAt(p - 1), kNoClass);
  EXPECT_EQ(map->ClassAt(p + 8 * kGranule), kNoClass);
  EXPECT_FALSE(map->Cover<FakeOs>(reinterpret_cast<void*>(uintptr_t{1} << kAddressBits), 1));
  FakeOs::RefuseMap(0, kNever);
  EXPECT_FALSE(map->Cover<FakeOs>(reinterpret_cast<void*>(uintptr_t{9} << kLeafShift), 1));
  EXPECT_FALSE(map->Covers(reinterpret_cast<void*>(uintptr_t{9} << kLeafShift)));
  FakeOs::Reset();
}

}  // namespace
}  // namespace granary
