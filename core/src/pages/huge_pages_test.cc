// The page heap on memory that may have huge pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/fake_die.h"
#include "pages/fake_pages.h"
#include "pages/pages.h"

namespace granary {
namespace {

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

}  // namespace
}  // namespace granary
