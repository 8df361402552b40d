#include "pages/pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "base/fake_die.h"
#include "pages/fake_pages.h"

namespace granary {
namespace {

FakeInput InputOf(const std::vector<uint8_t>& bytes) { return {bytes.data(), bytes.size()}; }

TEST(PageHeap, AgreesWithItsModel) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    FakePages pages;
    PageProgram program(pages);
    const std::vector<uint8_t> bytes = BytesFrom(seed, 4000);
    program.Run(InputOf(bytes), 1);
    program.FreeAll();
  }
}

TEST(PageHeap, AgreesWithItsModelWhenTheSystemReleasesNothing) {
  FakePages pages;
  FakeOs::RefusePurge(0);
  PageProgram program(pages);
  const std::vector<uint8_t> bytes = BytesFrom(99, 4000);
  program.Run(InputOf(bytes), 1);
  program.FreeAll();
}

TEST(PageHeap, UnmapsWholeChunksThatHoldNothing) {
  FakePages pages;
  std::vector<void*> blocks;
  for (int i = 0; i < 6; ++i) {
    blocks.push_back(pages.heap.AllocateLarge(100 * kMiB, kTrackerBytes, 100 * kMiB).p);
    ASSERT_NE(blocks.back(), nullptr);
  }
  const size_t mapped = pages.heap.Stats().mapped;
  EXPECT_EQ(pages.heap.UnmapFree(), 0u);
  for (size_t i = 0; i < blocks.size(); i += 2) pages.heap.FreeLarge(blocks[i]);
  EXPECT_EQ(pages.heap.UnmapFree(), 0u) << "dirty pages keep their address space";
  pages.heap.PurgeDirty(kGiB);
  const size_t unmapped = pages.heap.UnmapFree();
  EXPECT_GE(unmapped, 200 * kMiB);
  EXPECT_EQ(pages.heap.Stats().mapped, mapped - unmapped);
  EXPECT_EQ(pages.heap.PlaceOf(blocks[0]), PageHeap<FakeOs>::Place::kOutside);
  pages.heap.Verify();
  for (size_t i = 0; i < blocks.size(); i += 2) {
    blocks[i] = pages.heap.AllocateLarge(100 * kMiB, kTrackerBytes, 100 * kMiB).p;
    ASSERT_NE(blocks[i], nullptr);
    std::memset(blocks[i], 1, kMiB);
  }
  EXPECT_LE(pages.metadata.used(), 100 * kKiB) << "descriptions of unmapped chunks serve again";
  for (void* p : blocks) pages.heap.FreeLarge(p, true);
  EXPECT_EQ(pages.heap.dirty_bytes(), 0u) << "freed at once";
  pages.heap.UnmapFree();
  EXPECT_EQ(pages.heap.Stats().mapped, 0u);
  pages.heap.Verify();
}

// Refuses each call of Map in turn, alone and with all that follow.
TEST(PageHeap, StaysValidWhicheverMapIsRefused) {
  const std::vector<uint8_t> bytes = BytesFrom(7, 600);
  for (const size_t count : {size_t{1}, size_t{3}, kNever}) {
    for (size_t refused = 0; refused < 8; ++refused) {
      FakePages pages;
      PageProgram program(pages);
      FakeOs::RefuseMap(refused, count);
      program.Run(InputOf(bytes), 8);
      FakeOs::AllowAll();
      program.Run(InputOf(bytes), 8);
      ASSERT_GT(program.live(), 0u);
      program.FreeAll();
    }
  }
}

TEST(PageHeap, RefusesSizesThatCannotBe) {
  FakePages pages;
  for (const size_t bytes : {kMaxRequest, kMaxRequest / 2, ~size_t{0}, 65 * kGiB}) {
    EXPECT_EQ(pages.heap.AllocateLarge(bytes, kTrackerBytes, bytes).p, nullptr) << bytes;
  }
  for (size_t alignment = 128 * kGiB; alignment != 0; alignment *= 2) {
    EXPECT_EQ(pages.heap.AllocateLarge(1, alignment, 1).p, nullptr) << alignment;
  }
  const Memory memory = pages.heap.AllocateLarge(kMiB, kTrackerBytes, kMiB);
  ASSERT_NE(memory.p, nullptr);
  for (const size_t bytes : {kMaxRequest, kMaxRequest / 2, ~size_t{0}, 65 * kGiB}) {
    EXPECT_EQ(pages.heap.AllocateLarge(bytes, kTrackerBytes, bytes).p, nullptr) << bytes;
    EXPECT_FALSE(pages.heap.ResizeLarge(memory.p, bytes)) << bytes;
  }
  pages.heap.Verify();
}

TEST(PageHeap, GivesUpTheReserveBeforeTheBlock) {
  FakePages pages;
  const Memory memory = pages.heap.AllocateLarge(kMiB, kTrackerBytes, 100 * kGiB);
  EXPECT_NE(memory.p, nullptr);
  EXPECT_EQ(pages.heap.LargeSize(memory.p), kMiB);
}

TEST(PageHeap, SpansJustFitAndEmptyTrackersGoFree) {
  FakePages pages;
  std::vector<void*> spans;
  for (size_t i = 0; i < 2 * Tracker::kGranules / 8; ++i) {
    spans.push_back(pages.heap.AllocateSpan(8).p);
  }
  EXPECT_EQ(pages.heap.used_bytes(), 2 * kTrackerBytes);
  for (void* p : spans) pages.heap.FreeSpan(p, 8, 0);
  EXPECT_EQ(pages.heap.used_bytes(), 0u);
  EXPECT_EQ(pages.heap.dirty_bytes(), 0u) << "what came back clean";
  pages.heap.Verify();
}

TEST(PageHeap, FreedSpansReadZeroAfterRelease) {
  FakePages pages;
  auto* const keep = static_cast<char*>(pages.heap.AllocateSpan(1).p);
  auto* const p = static_cast<char*>(pages.heap.AllocateSpan(4).p);
  p[0] = p[4 * kGranule - 1] = 7;
  pages.heap.FreeSpan(p, 4, ~uint64_t{0});
  EXPECT_EQ(pages.heap.dirty_bytes(), 4 * kGranule);
  EXPECT_EQ(pages.heap.PurgeDirty(kMiB), 4 * kGranule);
  EXPECT_EQ(FakeOs::counts().released_bytes, 4 * kGranule);
  const Memory again = pages.heap.AllocateSpan(4);
  EXPECT_EQ(again.p, p);
  EXPECT_TRUE(again.Zero());
  EXPECT_EQ(p[0] + p[4 * kGranule - 1], 0);
  EXPECT_EQ(pages.heap.Stats().released, 4 * kGranule);
  EXPECT_EQ(FakeOs::counts().purge, 1u);
  pages.heap.FreeSpan(keep, 1, 0);
}

TEST(PageHeap, OnlyMemoryIdleThroughAnIntervalIsDue) {
  FakePages pages;
  pages.heap.FreeSpan(pages.heap.AllocateSpan(10).p, 10, ~uint64_t{0});
  pages.heap.EndInterval();
  EXPECT_EQ(pages.heap.due_bytes(), 0u) << "it was freed in this interval";
  void* const p = pages.heap.AllocateSpan(4).p;
  pages.heap.FreeSpan(p, 4, ~uint64_t{0});
  pages.heap.EndInterval();
  EXPECT_EQ(pages.heap.due_bytes(), 6 * kGranule) << "four were needed";
  EXPECT_GE(pages.heap.PurgeDue(kMiB), 6 * kGranule);
  EXPECT_EQ(pages.heap.due_bytes(), 0u);
}

// A simulated heap of 1 TiB without pages: every second block stays, so there is a run of free
// trackers for each. A search from the first run on in each step would take hours.
TEST(PageHeap, ReleasesMuchFreeMemoryInStepsOfBoundedSize) {
  constexpr size_t kBlock = 8 * kTrackerBytes, kBlocks = kTiB / kBlock;
  FakePages pages;
  std::vector<void*> blocks(kBlocks);
  for (void*& block : blocks) {
    block = pages.heap.AllocateLarge(kBlock, kTrackerBytes, kBlock).p;
    ASSERT_NE(block, nullptr);
  }
  std::sort(blocks.begin(), blocks.end());
  for (size_t i = 0; i < kBlocks; i += 2) pages.heap.FreeLarge(blocks[i]);
  EXPECT_EQ(pages.heap.dirty_bytes(), kTiB / 2);
  EXPECT_EQ(pages.heap.PurgeDirty(kTiB), kTiB / 2);
  EXPECT_LE(FakeOs::counts().most_released, 8 * kMiB) << "what is released is nobody's meanwhile";
  EXPECT_LE(FakeOs::counts().purge, kTiB / 2 / (8 * kMiB)) << "and few calls are enough";
  for (size_t i = 1; i < kBlocks; i += 2) pages.heap.FreeLarge(blocks[i]);
  EXPECT_EQ(pages.heap.PurgeDirty(kTiB), kTiB / 2);
  EXPECT_GT(pages.heap.PurgeMap(), 0u);
  pages.heap.Verify();
}

TEST(PageHeap, ThePageMapHasNoHugePages) {
  FakePages pages;
  void* const p = pages.heap.AllocateSpan(1).p;
  const uintptr_t row = pages.map.root[AddressOf(p) >> kLeafShift].load();
  const auto* const leaf = reinterpret_cast<void*>(AddressOf(pages.map.no_leaf) + row);
  EXPECT_FALSE(FakeOs::MayBeHuge(leaf));
}

// Committed memory is charged under strict overcommit, and made resident by mlockall.
TEST(PageHeap, CommitsAddressSpaceInSteps) {
  FakePages pages;
  pages.heap.AllocateSpan(1);
  EXPECT_LE(FakeOs::counts().committed_bytes, 4 * kMiB);
  EXPECT_GE(FakeOs::MappedBytes(), 64 * kMiB);
  for (size_t used = 1; used < 256; ++used) {
    pages.heap.AllocateSpan(Tracker::kGranules);
    EXPECT_LE(FakeOs::counts().committed_bytes, used * kTrackerBytes * 17 / 16 + 8 * kMiB);
  }
  pages.heap.Verify();
}

TEST(PageHeap, StaysValidWhereMemoryCannotBeCommitted) {
  for (const size_t most : {0 * kMiB, 2 * kMiB, 10 * kMiB, 41 * kMiB}) {
    FakePages pages;
    FakeOs::SetMostCommitted(most);
    std::vector<void*> spans;
    for (Memory m; (m = pages.heap.AllocateSpan(64)).p != nullptr;) spans.push_back(m.p);
    EXPECT_EQ(spans.size(), most / kTrackerBytes * Tracker::kGranules / 64);
    EXPECT_EQ(pages.heap.AllocateLarge(kMiB, kTrackerBytes, kMiB).p, nullptr);
    pages.heap.Verify();
    for (void* p : spans) pages.heap.FreeSpan(p, 64, 0);
    pages.heap.UnmapFree();
    pages.heap.Verify();
    FakeOs::SetMostCommitted(kNever);
    EXPECT_NE(pages.heap.AllocateLarge(kMiB, kTrackerBytes, kMiB).p, nullptr);
  }
}

// The lock is free while the system commits, which is slow where memory is locked.
TEST(PageHeap, OtherThreadsAllocateWhileMemoryIsCommitted) {
  FakePages pages;
  void* const kept = pages.heap.AllocateSpan(1).p;
  void* got = nullptr;
  FakeOs::DuringCommit([&] { std::thread([&] { got = pages.heap.AllocateSpan(1).p; }).join(); });
  EXPECT_NE(pages.heap.AllocateLarge(16 * kMiB, kTrackerBytes, 16 * kMiB).p, nullptr);
  EXPECT_NE(got, nullptr);
  EXPECT_NE(got, kept);
  pages.heap.Verify();
}

TEST(PageHeap, KnowsWhatLiesWhere) {
  using Place = PageHeap<FakeOs>::Place;
  FakePages pages;
  int local = 0;
  EXPECT_EQ(pages.heap.PlaceOf(&local), Place::kOutside);
  EXPECT_EQ(pages.heap.PlaceOf(nullptr), Place::kOutside);
  EXPECT_EQ(pages.heap.PlaceOf(reinterpret_cast<void*>(~uintptr_t{0})), Place::kOutside);
  auto* const p = static_cast<char*>(pages.heap.AllocateSpan(2).p);
  EXPECT_EQ(pages.heap.PlaceOf(p + 2 * kGranule - 1), Place::kInside);
  pages.heap.FreeSpan(p, 2, 0);
  EXPECT_EQ(pages.heap.PlaceOf(p), Place::kFree);
}

}  // namespace
}  // namespace granary
