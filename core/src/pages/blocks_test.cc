// The blocks of the page heap: how they grow, take pages of free regions, and end.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/fake_die.h"
#include "pages/fake_pages.h"
#include "pages/pages.h"

namespace granary {
namespace {

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

}  // namespace
}  // namespace granary
