#include "pages/pages.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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

// The first span of a tracker may bring in a huge page: its unused part is resident, too.
TEST(PageHeap, MemoryThatAHugePageFilledInIsDueLikeOtherMemory) {
  FakePages pages;
  pages.heap.SetHuge(PageHeap<FakeOs>::Huge::kAlways);
  void* const keep = pages.heap.AllocateSpan(4).p;
  EXPECT_EQ(pages.heap.dirty_bytes(), 0u) << "it reads as zero";
  pages.heap.EndInterval();
  EXPECT_EQ(pages.heap.dirty_bytes(), kTrackerBytes - 4 * kGranule);
  EXPECT_EQ(pages.heap.due_bytes(), 0u) << "the heap may still want it";
  pages.heap.EndInterval();
  EXPECT_EQ(pages.heap.due_bytes(), kTrackerBytes - 4 * kGranule);
  EXPECT_EQ(pages.heap.PurgeDue(kTrackerBytes), kTrackerBytes - 4 * kGranule);
  EXPECT_EQ(FakeOs::counts().split, 1u);
  pages.heap.EndInterval();
  EXPECT_EQ(pages.heap.dirty_bytes(), 0u) << "only once";
  pages.heap.Verify();
  // A tracker without objects, whose only slab was purged before.
  void* const gone = pages.heap.AllocateSpan(Tracker::kGranules - 3).p;
  pages.heap.FreeSpan(gone, Tracker::kGranules - 3, 0);
  EXPECT_EQ(pages.heap.dirty_bytes(), kTrackerBytes);
  // More of them in an interval than are recorded.
  std::vector<void*> spans;
  for (int i = 0; i < 40; ++i)
    spans.push_back(pages.heap.AllocateSpan(Tracker::kGranules / 2 + 1).p);
  EXPECT_EQ(pages.heap.PurgeAll(), 39 * (Tracker::kGranules / 2 - 1) * kGranule)
      << "one lies beside the first span, where nothing is left";
  for (void* p : spans) pages.heap.FreeSpan(p, Tracker::kGranules / 2 + 1, 0);
  pages.heap.FreeSpan(keep, 4, 0);
  pages.heap.Verify();
}

// So does the end of a block, whose last region only grows, shrinks or ends with the block.
TEST(PageHeap, MemoryBehindABlockThatAHugePageFilledInIsPurged) {
  FakePages pages;
  pages.heap.SetHuge(PageHeap<FakeOs>::Huge::kAlways);
  constexpr size_t kBytes = 9 * kMiB, kTail = 10 * kMiB - kBytes;
  void* const block = pages.heap.AllocateLarge(kBytes, 1, 0).p;
  EXPECT_EQ(pages.heap.dirty_bytes(), 0u) << "a block that grows wants it";
  pages.heap.EndInterval();
  EXPECT_EQ(pages.heap.dirty_bytes(), kTail);
  ASSERT_TRUE(pages.heap.ResizeLarge(block, kBytes + kGranule));
  EXPECT_EQ(pages.heap.dirty_bytes(), kTail - kGranule);
  pages.heap.EndInterval();
  EXPECT_EQ(pages.heap.PurgeDue(kTrackerBytes), kTail - kGranule);
  EXPECT_EQ(FakeOs::counts().split, 1u);
  pages.heap.Verify();
  // A block that ends within the interval leaves it to the next one.
  void* const next = pages.heap.AllocateLarge(kBytes, 1, 0).p;
  pages.heap.FreeLarge(next);
  EXPECT_EQ(pages.heap.dirty_bytes(), 10 * kMiB);
  pages.heap.FreeLarge(block);
  pages.heap.Verify();
}

TEST(PageHeap, AHugePageOfWhichAPartGoesIsSplitOnce) {
  FakePages pages;
  pages.heap.SetHuge(PageHeap<FakeOs>::Huge::kAlways);
  char* const first = static_cast<char*>(pages.heap.AllocateSpan(Tracker::kGranules / 2).p);
  char* const second = static_cast<char*>(pages.heap.AllocateSpan(Tracker::kGranules / 2).p);
  char* const tracker = first < second ? first : second;
  EXPECT_TRUE(FakeOs::MayBeHuge(tracker));
  pages.heap.SplitHugeAt(second + kGranule);
  EXPECT_EQ(FakeOs::counts().split, 1u);
  EXPECT_FALSE(FakeOs::MayBeHuge(tracker)) << "or the kernel would fill it up again";
  pages.heap.FreeSpan(first, Tracker::kGranules / 2, ~uint64_t{0});
  EXPECT_EQ(pages.heap.PurgeAll(), kTrackerBytes / 2);
  EXPECT_EQ(FakeOs::counts().split, 1u);
  pages.heap.Verify();
  pages.heap.FreeSpan(second, Tracker::kGranules / 2, ~uint64_t{0});
  EXPECT_EQ(pages.heap.PurgeAll(), kTrackerBytes / 2);
  EXPECT_TRUE(FakeOs::MayBeHuge(tracker)) << "all of it has gone";
  pages.heap.Verify();
}

TEST(PageHeap, WhatWasSplitIsWholeAgainBeforeItIsFaultedInAhead) {
  FakePages pages;
  pages.heap.SetHuge(PageHeap<FakeOs>::Huge::kAlways);
  char* const first = static_cast<char*>(pages.heap.AllocateSpan(64).p);
  char* const second = static_cast<char*>(pages.heap.AllocateSpan(64).p);
  char* const span = first < second ? first : second;
  pages.heap.EndInterval();
  pages.heap.SplitHugeAt(span);
  pages.heap.FreeSpan(first, 64, 0);  // every page was purged inside the spans
  pages.heap.FreeSpan(second, 64, 0);
  EXPECT_EQ(pages.heap.PurgeAll(), 0u);
  EXPECT_FALSE(FakeOs::MayBeHuge(span));
  EXPECT_TRUE(pages.heap.PrepareAhead());
  EXPECT_TRUE(FakeOs::MayBeHuge(span));
  pages.heap.Verify();
}

// The host of a virtual machine may have reclaimed memory; then a huge page costs milliseconds.
TEST(PageHeap, SlowHugePagesAreTriedLessAndLess) {
  using Heap = PageHeap<FakeOs>;
  FakePages pages;
  // Above the size from which huge pages are allowed.
  for (int i = 0; i < 64; ++i) pages.heap.AllocateSpan(Tracker::kGranules);
  char* p = nullptr;
  const auto grow = [&] { p = static_cast<char*>(pages.heap.AllocateSpan(128).p); };
  do grow();
  while (!FakeOs::MayBeHuge(p));
  FakeOs::SetPopulateNanos(200000);
  EXPECT_TRUE(pages.heap.PrepareAhead());
  EXPECT_FALSE(pages.heap.HugeIsSlow());
  grow();
  FakeOs::SetPopulateNanos(4000000);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(pages.heap.HugeIsSlow()) << "after " << i << " slow ones";
    EXPECT_TRUE(pages.heap.PrepareAhead());
    grow();
  }
  EXPECT_TRUE(pages.heap.HugeIsSlow());
  EXPECT_TRUE(FakeOs::MayBeHuge(p)) << "it is there already";
  std::vector<int> tries;
  for (int grown = 1; grown < 200; ++grown) {
    grow();
    const bool tried = !tries.empty() && tries.back() == grown - 1;
    EXPECT_EQ(FakeOs::MayBeHuge(p), tried);
    if (pages.heap.PrepareAhead()) tries.push_back(grown);
    pages.heap.Verify();
  }
  ASSERT_EQ(tries.size(), 3u);
  EXPECT_EQ(tries[1] - tries[0], 32);
  EXPECT_EQ(tries[2] - tries[1], 64);
  FakeOs::SetPopulateNanos(200000);
  while (!pages.heap.PrepareAhead()) grow();
  EXPECT_FALSE(pages.heap.HugeIsSlow());
  EXPECT_TRUE(pages.heap.PrepareAhead()) << "what was to be small is huge after all";
  pages.heap.Verify();
  EXPECT_NE(Heap::Place::kOutside, pages.heap.PlaceOf(p));
}

// Commits `trackers` trackers in spans, one every `millis` milliseconds, and returns the first one
// in which the kernel may use huge pages.
size_t FirstHugeTracker(FakePages& pages, size_t trackers, uint64_t millis) {
  for (size_t i = 0; i < trackers; ++i) {
    FakeOs::SetNow(1000 + i * millis);
    if (FakeOs::MayBeHuge(pages.heap.AllocateSpan(Tracker::kGranules).p)) return i;
  }
  return trackers;
}

// A huge page costs a slowly growing server more in pauses than it saves.
TEST(PageHeap, AHeapThatGrowsFastHasHugePagesEarlier) {
  constexpr size_t kTrackers = 300;
  FakePages slow;
  EXPECT_EQ(FirstHugeTracker(slow, kTrackers, 20), 256u) << "100 MiB a second: from 512 MiB on";
  FakePages fast;
  EXPECT_EQ(FirstHugeTracker(fast, kTrackers, 2), 32u) << "1 GiB a second: from 64 MiB on";
}

// There a huge page has 32 or 512 MiB: one touched byte would make all of it resident.
TEST(PageHeap, SystemsWithLargerPagesHaveNoHugePages) {
  for (size_t page : {16 * kKiB, 64 * kKiB}) {
    FakePages pages;
    FakeOs::SetPageSize(page);
    pages.heap.SetHuge(PageHeap<FakeOs>::Huge::kAlways);
    EXPECT_EQ(FirstHugeTracker(pages, 300, 2), 300u) << page;
    EXPECT_FALSE(FakeOs::MayBeHuge(pages.heap.AllocateLarge(kGiB, kTrackerBytes, kGiB).p)) << page;
  }
}

TEST(PageHeap, SlowHugePagesEndWithoutABackgroundThreadToo) {
  FakePages pages;
  FakeOs::SetPopulateNanos(4000000);
  EXPECT_EQ(FirstHugeTracker(pages, 100, 1), 32u);
  size_t huge = 1;
  for (; !pages.heap.HugeIsSlow(); ++huge) {
    ASSERT_LT(huge, 5u);
    EXPECT_TRUE(FakeOs::MayBeHuge(pages.heap.AllocateSpan(Tracker::kGranules).p));
  }
  EXPECT_FALSE(FakeOs::MayBeHuge(pages.heap.AllocateSpan(Tracker::kGranules).p));
  pages.heap.Verify();
}

TEST(PageHeap, SmallPagesAreNotSplit) {
  FakePages pages;
  void* const span = pages.heap.AllocateSpan(Tracker::kGranules).p;
  pages.heap.SplitHugeAt(span);
  EXPECT_EQ(FakeOs::counts().split, 0u);
  pages.heap.FreeSpan(span, Tracker::kGranules, ~uint64_t{0});
}

// Each sequence of split trackers costs two mappings, whatever its length.
TEST(PageHeap, SplitsAsManyRowsAsMappingsAllow) {
  constexpr size_t kTrackers = 20000;
  FakePages pages;
  pages.heap.SetHuge(PageHeap<FakeOs>::Huge::kAlways);
  std::vector<char*> spans(kTrackers);
  for (char*& span : spans) {
    span = static_cast<char*>(pages.heap.AllocateSpan(Tracker::kGranules).p);
    ASSERT_NE(span, nullptr);
  }
  std::sort(spans.begin(), spans.end());
  for (size_t i = 0; i < kTrackers; i += 2) pages.heap.SplitHugeAt(spans[i]);
  const size_t rows = FakeOs::counts().split;
  EXPECT_LT(rows, 10000u) << "the kernel allows 65,530 mappings for everything";
  EXPECT_GT(rows, 8000u);
  for (size_t i = 1; i < kTrackers; i += 2) pages.heap.SplitHugeAt(spans[i]);
  EXPECT_GT(FakeOs::counts().split, 2 * rows - 2) << "what joins two rows is welcome";
  pages.heap.Verify();
  for (char* span : spans) pages.heap.FreeSpan(span, Tracker::kGranules, ~uint64_t{0});
  pages.heap.PurgeAll();
  pages.heap.Verify();
}

TEST(PageHeap, BlocksGrowIntoFreeNeighboursOnly) {
  FakePages pages;
  auto* const a = static_cast<char*>(pages.heap.AllocateLarge(kMiB, kTrackerBytes, kMiB).p);
  auto* const b = static_cast<char*>(pages.heap.AllocateLarge(kMiB, kTrackerBytes, kMiB).p);
  ASSERT_EQ(b, a + kTrackerBytes) << "the lowest that fits";
  EXPECT_TRUE(pages.heap.ResizeLarge(a, kTrackerBytes));
  EXPECT_FALSE(pages.heap.ResizeLarge(a, kTrackerBytes + 1));
  pages.heap.FreeLarge(b);
  EXPECT_TRUE(pages.heap.ResizeLarge(a, 3 * kTrackerBytes));
  EXPECT_EQ(pages.heap.LargeSize(a), 3 * kTrackerBytes);
  EXPECT_EQ(pages.heap.LargeSize(a + kTrackerBytes), 0u);
  pages.heap.Verify();
  pages.heap.FreeLarge(a);
  pages.heap.Verify();
}

TEST(PageHeap, ShrunkBlocksKeepNoPagesBehindTheirEnd) {
  FakePages pages;
  auto* const p = static_cast<char*>(pages.heap.AllocateLarge(4 * kMiB, kTrackerBytes, 4 * kMiB).p);
  std::memset(p, 7, 4 * kMiB);
  EXPECT_TRUE(pages.heap.ResizeLarge(p, kMiB));
  EXPECT_EQ(p[kMiB - 1], 7);
  EXPECT_EQ(p[kMiB], 0) << "given back";
  EXPECT_EQ(pages.heap.dirty_bytes(), kTrackerBytes) << "the next tracker is free and dirty";
  pages.heap.Verify();
}

TEST(PageHeap, GrownBlocksKeepNoPagesBehindTheirEnd) {
  FakePages pages;
  auto* const p = static_cast<char*>(pages.heap.AllocateLarge(kMiB, kTrackerBytes, kMiB).p);
  auto* const dirty = pages.heap.AllocateLarge(2 * kMiB, kTrackerBytes, 2 * kMiB).p;
  std::memset(dirty, 7, 2 * kMiB);
  pages.heap.FreeLarge(dirty);
  ASSERT_TRUE(pages.heap.ResizeLarge(p, 3 * kMiB)) << "half of the dirty tracker";
  EXPECT_EQ(pages.heap.dirty_bytes(), 0u) << "nobody else could use them while the block lives";
  pages.heap.Verify();
}

TEST(PageHeap, MovesPagesBetweenBlocks) {
  FakePages pages;
  auto* const from = static_cast<char*>(pages.heap.AllocateLarge(3 * kMiB, kMiB, 3 * kMiB).p);
  auto* const to = static_cast<char*>(pages.heap.AllocateLarge(5 * kMiB, kMiB, 5 * kMiB).p);
  from[0] = 1;
  from[3 * kMiB - 1] = 2;
  ASSERT_EQ(pages.heap.MoveLarge(from, to).bytes, 3 * kMiB);
  EXPECT_EQ(to[0], 1);
  EXPECT_EQ(to[3 * kMiB - 1], 2);
  EXPECT_EQ(from[0], 0);
  pages.heap.FreeMovedLarge(from);
  EXPECT_EQ(pages.heap.dirty_bytes(), 0u);
  pages.heap.FreeLarge(to);
  pages.heap.Verify();
}

// Four adjacent blocks, of which the first and the third are free.
struct Holes {
  explicit Holes(PageHeap<FakeOs>& heap) {
    for (char*& block : blocks) {
      block = static_cast<char*>(heap.AllocateLarge(kTrackerBytes, 1, 1).p);
      std::memset(block, 7, kTrackerBytes);
    }
    heap.FreeLarge(blocks[0]);
    heap.FreeLarge(blocks[2]);
  }
  char* blocks[4];
};

TEST(PageHeap, PagesOfHolesMoveIntoABlockThatDoesNotFitThere) {
  FakePages pages;
  const Holes holes(pages.heap);
  const Memory memory = pages.heap.AllocateLarge(3 * kTrackerBytes, 1, 1);
  EXPECT_EQ(FakeOs::counts().move, 2u);
  EXPECT_FALSE(memory.Zero());
  EXPECT_EQ(pages.heap.dirty_bytes(), 0u);
  const auto* const p = static_cast<char*>(memory.p);
  for (const size_t at : {size_t{0}, 2 * kTrackerBytes - 1}) EXPECT_EQ(p[at], 7);
  EXPECT_EQ(p[2 * kTrackerBytes], 0) << "there were pages for two trackers only";
  for (const size_t free : {0, 2}) EXPECT_EQ(*holes.blocks[free], 0);
  for (const size_t kept : {1, 3}) EXPECT_EQ(*holes.blocks[kept], 7);
  const Memory again = pages.heap.AllocateLarge(kTrackerBytes, 1, 1);
  EXPECT_TRUE(again.Zero()) << "what was moved away is clean";
  pages.heap.Verify();
}

TEST(PageHeap, PagesThatTheSystemWillNotMoveStay) {
  FakePages pages;
  const Holes holes(pages.heap);
  FakeOs::SetCanMove(false);
  const Memory memory = pages.heap.AllocateLarge(3 * kTrackerBytes, 1, 1);
  EXPECT_TRUE(memory.Zero());
  EXPECT_EQ(pages.heap.dirty_bytes(), 2 * kTrackerBytes);
  EXPECT_EQ(*holes.blocks[0], 7);
  pages.heap.Verify();
}

TEST(PageHeap, PagesOfHolesMoveIntoABlockThatGrows) {
  FakePages pages;
  constexpr size_t kBytes = 4 * kTrackerBytes;
  auto* const p = static_cast<char*>(pages.heap.AllocateLarge(kBytes, 1, 2 * kBytes).p);
  std::memset(p, 1, kBytes);
  const Holes holes(pages.heap);
  ASSERT_TRUE(pages.heap.ResizeLarge(p, kBytes + kGranule));
  EXPECT_EQ(FakeOs::counts().move, 1u);
  EXPECT_EQ(p[kBytes - 1], 1);
  EXPECT_EQ(p[kBytes], 7);
  EXPECT_EQ(pages.heap.dirty_bytes(), 2 * kTrackerBytes - kGranule) << "a hole, and behind the end";
  ASSERT_TRUE(pages.heap.ResizeLarge(p, kBytes + kTrackerBytes));
  EXPECT_EQ(FakeOs::counts().move, 1u) << "it entered no region";
  EXPECT_EQ(pages.heap.dirty_bytes(), kTrackerBytes);
  pages.heap.Verify();
  ASSERT_TRUE(pages.heap.ResizeLarge(p, kBytes));
  EXPECT_EQ(pages.heap.PurgeAll(), 2 * kTrackerBytes);
  for (const size_t kept : {1, 3}) EXPECT_EQ(*holes.blocks[kept], 7);
  pages.heap.Verify();
}

TEST(PageHeap, ABlockThatCannotGrowAfterALossKeepsItsSize) {
  FakePages pages;
  constexpr size_t kBytes = 4 * kTrackerBytes;
  auto* const p = static_cast<char*>(pages.heap.AllocateLarge(kBytes - kMiB, 1, 2 * kBytes).p);
  std::memset(p, 1, kBytes - kMiB);
  const Holes holes(pages.heap);
  FakeOs::LoseTargetAfter(1);
  EXPECT_FALSE(pages.heap.ResizeLarge(p, kBytes + 2 * kTrackerBytes));
  EXPECT_EQ(FakeOs::counts().move, 2u);
  EXPECT_EQ(pages.heap.LargeSize(p), kBytes - kMiB);
  EXPECT_EQ(p[kBytes - kMiB - 1], 1);
  pages.heap.Verify();
  EXPECT_TRUE(pages.heap.ResizeLarge(p, kBytes)) << "up to the loss";
  pages.heap.FreeLarge(p);
  pages.heap.PurgeAll();
  pages.heap.Verify();
}

// The kernel refuses a move after it has unmapped the target, and another thread's mmap gets the
// hole: the heap never accesses it, and allocates the block elsewhere.
TEST(PageHeap, ARegionThatAMoveLostIsNeverTouchedAgain) {
  for (const size_t moves : {0, 1}) {
    FakePages pages;
    const Holes holes(pages.heap);
    FakeOs::LoseTargetAfter(moves);
    const Memory memory = pages.heap.AllocateLarge(3 * kTrackerBytes, 1, 1);
    ASSERT_NE(memory.p, nullptr);
    EXPECT_EQ(FakeOs::counts().move, moves + 1) << "the system is not asked again";
    std::memset(memory.p, 1, 3 * kTrackerBytes);
    for (const size_t kept : {1, 3}) EXPECT_EQ(*holes.blocks[kept], 7);
    pages.heap.Verify();
    pages.heap.FreeLarge(memory.p);
    for (const size_t kept : {1, 3}) pages.heap.FreeLarge(holes.blocks[kept]);
    pages.heap.PurgeAll();
    pages.heap.PurgeMap();
    pages.heap.UnmapFree();
    for (Memory m; (m = pages.heap.AllocateLarge(kTrackerBytes, 1, 1)).p != nullptr;) {
      std::memset(m.p, 1, kGranule);
      if (pages.heap.used_bytes() > 100 * kMiB) break;
    }
    pages.heap.Verify();
  }
}

TEST(PageHeap, ABlockThatLostARegionEndsBeforeIt) {
  for (const size_t moves : {0, 2}) {
    FakePages pages;
    constexpr size_t kBytes = 5 * kTrackerBytes;
    auto* const from = static_cast<char*>(pages.heap.AllocateLarge(kBytes, 1, kBytes).p);
    auto* const to = static_cast<char*>(pages.heap.AllocateLarge(2 * kBytes, 1, 3 * kBytes).p);
    for (size_t i = 0; i < 5; ++i) from[i * kTrackerBytes] = static_cast<char>(1 + i);
    FakeOs::LoseTargetAfter(moves);
    MoveResult result;
    for (size_t i = 0; i < 5 && !result.lost; ++i) {  // in steps, as the system does
      const size_t done = result.bytes;
      result = FakeOs::MovePages(from + done, kTrackerBytes, to + done);
      result.bytes += done;
    }
    ASSERT_TRUE(result.lost);
    ASSERT_EQ(result.bytes, moves * kTrackerBytes);
    const bool remains = pages.heap.CutLarge(to, result.bytes);
    EXPECT_EQ(remains, moves > 0);
    pages.heap.Verify();
    if (remains) {
      EXPECT_EQ(pages.heap.LargeSize(to), moves * kTrackerBytes);
      EXPECT_EQ(to[kTrackerBytes], 2);
      pages.heap.FreeLarge(to);
    }
    pages.heap.FreeLarge(from);
    pages.heap.PurgeAll();
    pages.heap.UnmapFree();
    pages.heap.Verify();
  }
}

// A thread requests memory while the only free memory is being purged.
TEST(PageHeap, MemoryThatIsOutForAMomentIsWaitedFor) {
  FakePages pages;
  std::vector<void*> spans{pages.heap.AllocateSpan(Tracker::kGranules).p};
  FakeOs::RefuseMap(0, kNever);
  for (Memory m; (m = pages.heap.AllocateSpan(Tracker::kGranules)).p != nullptr;)
    spans.push_back(m.p);
  pages.heap.FreeSpan(spans.back(), Tracker::kGranules, ~uint64_t{0});
  void* got = nullptr;
  std::thread other;
  FakeOs::DuringPurge([&] {
    other = std::thread([&] { got = pages.heap.AllocateSpan(Tracker::kGranules).p; });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  EXPECT_GT(pages.heap.PurgeDirty(kTrackerBytes), 0u);
  other.join();
  EXPECT_EQ(got, spans.back());
}

// A block over dirty trackers, half a MiB of which is after its end.
struct Tailed {
  static constexpr size_t kTail = kMiB / 2;
  static constexpr size_t kBytes = 8 * kTrackerBytes - kTail;
  explicit Tailed(PageHeap<FakeOs>& heap) {
    char* const before = static_cast<char*>(heap.AllocateLarge(kBytes + kTail, 1, 1).p);
    std::memset(before, 7, kBytes + kTail);
    heap.FreeLarge(before);
    block = static_cast<char*>(heap.AllocateLarge(kBytes, 1, 1).p);
  }
  char* block;
};

TEST(PageHeap, ASmallTailOfABlockGoesBackWithOtherDirtyMemory) {
  FakePages pages;
  char* const p = Tailed(pages.heap).block;
  EXPECT_EQ(pages.heap.dirty_bytes(), Tailed::kTail) << "a block that lives briefly leaves it so";
  EXPECT_EQ(p[Tailed::kBytes], 7);
  EXPECT_EQ(pages.heap.PurgeDirty(kMiB), Tailed::kTail);
  EXPECT_EQ(p[Tailed::kBytes - 1], 7);
  EXPECT_EQ(p[Tailed::kBytes], 0);
  EXPECT_TRUE(pages.heap.ResizeLarge(p, Tailed::kBytes + Tailed::kTail));
  pages.heap.FreeLarge(p);
  pages.heap.Verify();
}

TEST(PageHeap, ABlockWaitsForItsTailOnTheWayToTheSystem) {
  FakePages pages;
  char* const p = Tailed(pages.heap).block;
  std::atomic<bool> freed{false};
  std::thread other;
  FakeOs::DuringPurge([&] {
    other = std::thread([&] {
      pages.heap.FreeLarge(p);
      freed = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(freed);
  });
  EXPECT_EQ(pages.heap.PurgeDirty(1), Tailed::kTail)
      << "no more, as what is freed meanwhile is dirty";
  other.join();
  pages.heap.Verify();
  EXPECT_EQ(pages.heap.used_bytes(), 0u);
}

TEST(PageHeap, AChildOfAForkDoesNotWaitForATail) {
  FakePages pages;
  char* const p = Tailed(pages.heap).block;
  FakeOs::DuringPurge([&] {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      pages.heap.ForgetBusy();
      pages.heap.FreeLarge(p);
      pages.heap.Verify();
      _exit(pages.heap.used_bytes() == 0 ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  });
  EXPECT_EQ(pages.heap.PurgeDirty(kMiB), Tailed::kTail);
  pages.heap.Verify();
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
