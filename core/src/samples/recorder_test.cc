#include "samples/recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/fake_die.h"
#include "os/fake_os.h"

namespace granary::samples {
namespace {

class RecorderTest : public testing::Test {
 protected:
  static constexpr SizeClass kClass = ClassOf(48);

  RecorderTest() {
    FakeOs::Reset();
    memory_ = static_cast<char*>(FakeOs::Map(kBytes, kTrackerBytes, nullptr));
    EXPECT_TRUE(map_->Cover<FakeOs>(memory_, kBytes));
    map_->SetSlab(memory_, kBytes, kClass, slab_);
    Begin(kRate);
  }
  ~RecorderTest() override { FakeOs::Reset(); }

  void Begin(uint64_t rate) {
    ASSERT_TRUE(recorder_.Begin({rate, 0, 0}));
    recorder_.SetActive(true, rate);
  }
  void* Object(size_t i) { return memory_ + i * 48; }
  void Record(size_t i, uint64_t nanos, uintptr_t frame) {
    const uintptr_t frames[] = {frame, 0x1000, 0x2000};
    recorder_.Record(*map_, {Object(i), kClass, 48, 40, nanos, 1}, frames, 3);
  }
  void Free(size_t i, uint64_t nanos, uint32_t thread = 1) {
    recorder_.Freed(*map_, Object(i), nanos, thread);
  }
  const Head& head() { return *recorder_.head(); }

  static constexpr size_t kBytes = 8 * kMiB;
  static constexpr uint64_t kRate = 4800;
  std::unique_ptr<PageMap> map_ = std::make_unique<PageMap>();
  Recorder<FakeOs> recorder_;
  char* memory_;
  Slab* const slab_ = reinterpret_cast<Slab*>(uintptr_t{4096});
};

TEST_F(RecorderTest, FollowsASampleToItsEnd) {
  Record(5, 1000, 0xa);
  ASSERT_EQ(head().stacks, 1u);
  EXPECT_TRUE(recorder_.Knows(Object(5)));
  EXPECT_FALSE(recorder_.Knows(Object(6)));
  EXPECT_EQ(map_->ClassAt(Object(6)), kSampledClass) << "the same granule";
  const Stack& stack = recorder_.stacks()[0];
  EXPECT_EQ(stack.depth, 3u);
  EXPECT_EQ(recorder_.frames()[stack.first_frame], 0xau);
  // 1 / (1 - exp(-0.01)) objects
  EXPECT_NEAR(static_cast<double>(stack.allocated.objects) / kObjectScale, 100.5008, 1e-4);
  EXPECT_EQ(stack.allocated.bytes, 4824u);
  EXPECT_EQ(stack.allocated.requested, 4020u);
  Free(5, 1000 + 5'000'000);
  EXPECT_FALSE(recorder_.Knows(Object(5)));
  EXPECT_EQ(map_->ClassAt(Object(5)), kClass);
  EXPECT_EQ(stack.freed.bytes, stack.allocated.bytes);
  EXPECT_EQ(stack.freed.objects, stack.allocated.objects);
  EXPECT_EQ(stack.temporary.samples, 0u);
  EXPECT_EQ(stack.lifetimes[3], stack.freed.objects) << "four to eight milliseconds";
  EXPECT_EQ(stack.sequence % 2, 0u);
  EXPECT_EQ(head().live_samples, 0u);
}

TEST_F(RecorderTest, CountsSizesOfRequests) {
  const uintptr_t frame = 0xa;
  size_t i = 0;
  for (const size_t requested :
       {size_t{0}, size_t{1}, size_t{2}, size_t{32}, size_t{33}, size_t{40}}) {
    recorder_.Record(*map_, {Object(i++), kClass, 48, requested, 0, 1}, &frame, 1);
  }
  const uint64_t one = head().allocated.objects / 6;
  EXPECT_EQ(head().sizes[0], 2 * one) << "nothing and one byte";
  EXPECT_EQ(head().sizes[1], one);
  EXPECT_EQ(head().sizes[5], one) << "32 bytes";
  EXPECT_EQ(head().sizes[6], 2 * one) << "33 to 64 bytes";
  EXPECT_EQ(SizeRow(~uint64_t{0}), kSizes - 1);
}

TEST_F(RecorderTest, CountsWhatEachThreadAllocatesAndFrees) {
  const uintptr_t frame = 0xa;
  const auto record = [&](size_t i, uint32_t thread) {
    recorder_.Record(*map_, {Object(i), kClass, 48, 40, 0, thread}, &frame, 1);
  };
  for (size_t i = 0; i < 3; ++i) record(i, 7);
  record(3, 7 + kMostThreads);  // of the same hash
  Free(0, 1, 7 + kMostThreads);
  EXPECT_EQ(head().threads[7].thread, 7u);
  EXPECT_EQ(head().threads[7].allocated.samples, 3u);
  EXPECT_EQ(head().threads[7].freed.samples, 0u);
  EXPECT_EQ(head().threads[8].thread, 7 + kMostThreads);
  EXPECT_EQ(head().threads[8].allocated.samples, 1u);
  EXPECT_EQ(head().threads[8].freed.bytes, head().allocated.bytes / 4)
      << "by the thread that frees";
  for (uint32_t i = 0; i < kMostThreads; ++i) record(10 + i, 1000 + i);
  const ThreadRow& others = head().threads[kMostThreads];
  EXPECT_EQ(others.thread, 0u);
  EXPECT_EQ(others.allocated.samples, 2u) << "two rows were taken before";
}

TEST_F(RecorderTest, MarksTemporaryObjects) {
  Record(1, 0, 0xa);
  Free(1, 900'000);
  Record(1, 0, 0xa);
  Free(1, 900'000, 2);
  Record(1, 0, 0xa);
  Free(1, 1'100'000);
  EXPECT_EQ(recorder_.stacks()[0].temporary.samples, 1u) << "by its own thread, within 1 ms";
}

TEST_F(RecorderTest, AGranuleIsMarkedWhileItHoldsASample) {
  for (size_t i = 0; i < 3; ++i) Record(i, 0, 0xa);
  Free(1, 1);
  Free(0, 1);
  EXPECT_EQ(map_->ClassAt(Object(2)), kSampledClass);
  Free(2, 1);
  EXPECT_EQ(map_->ClassAt(Object(2)), kClass);
}

TEST_F(RecorderTest, AMediumObjectKeepsItsClass) {
  constexpr SizeClass kMedium = kNumSmall + 3;
  char* const p = memory_ + 4 * kMiB;
  map_->SetSlab(p, kMiB, kNoClass, nullptr);
  map_->SetClass(p, kMedium);
  const uintptr_t frame = 1;
  recorder_.Record(*map_, {p, kMedium, kClassSize[kMedium], 90000, 0, 1}, &frame, 1);
  EXPECT_EQ(map_->ClassAt(p), kSampledClass);
  EXPECT_EQ(map_->SlabAt(p), PageMap::SlabOfClass(kMedium));
  recorder_.Freed(*map_, p, 1, 1);
  EXPECT_EQ(map_->ClassAt(p), kMedium);
  EXPECT_EQ(map_->SlabAt(p), nullptr);
}

TEST_F(RecorderTest, ManySamplesComeAndGo) {
  constexpr size_t kMost = 20000;
  std::vector<bool> live(kMost);
  uint64_t random = 1;
  size_t count = 0;
  for (int i = 0; i < 400000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const size_t at = (random >> 33) % kMost;
    if (live[at]) {
      Free(at, static_cast<uint64_t>(i));
    } else {
      Record(at, static_cast<uint64_t>(i), at % 100);
    }
    count += live[at] ? ~size_t{0} : 1;
    live[at] = !live[at];
    if (i % 1000 != 0) continue;
    ASSERT_EQ(head().live_samples, count);
    for (size_t k = 0; k < kMost; k += 97) ASSERT_EQ(recorder_.Knows(Object(k)), live[k]) << k;
  }
  EXPECT_EQ(head().stacks, 100u);
  EXPECT_LE(head().samples, kMost);
  EXPECT_EQ(head().lost.samples + head().lost.stacks, 0u);
  recorder_.Discard(*map_);
  EXPECT_EQ(recorder_.head(), nullptr);
  for (size_t k = 0; k < kMost; ++k) ASSERT_EQ(map_->ClassAt(Object(k)), kClass);
  EXPECT_FALSE(recorder_.Knows(Object(0)));
}

TEST_F(RecorderTest, CountsSamplesThatFindNoRoom) {
  uintptr_t frames[kMostDepth];
  for (size_t i = 0; i < kMostStacks + 5; ++i) {
    frames[0] = i;
    recorder_.Record(*map_, {Object(i), kClass, 48, 40, 0, 1}, frames, 1);
  }
  EXPECT_EQ(head().lost.stacks, 5u);
  EXPECT_EQ(head().live_samples, kMostStacks);
  EXPECT_FALSE(recorder_.Knows(Object(kMostStacks + 1)));
}

TEST_F(RecorderTest, ReturnsDeferredObjects) {
  Record(1, 0, 0xa);
  Record(2, 0, 0xa);
  recorder_.Defer(Object(2));
  ASSERT_TRUE(recorder_.AnyDeferred());
  EXPECT_EQ(recorder_.TakeDeferred(), Object(2));
  Free(2, 1);
  EXPECT_EQ(recorder_.TakeDeferred(), nullptr);
  EXPECT_FALSE(recorder_.AnyDeferred());
  EXPECT_TRUE(recorder_.Knows(Object(1)));
}

TEST_F(RecorderTest, WithoutMemoryThereIsNoProfile) {
  Recorder<FakeOs> other;
  FakeOs::RefuseMap(0, kNever);
  EXPECT_FALSE(other.Begin({kRate, 0, 0}));
  EXPECT_FALSE(other.Collects());
}

// Threads record and free their own objects and search for other threads' objects, while one thread
// discards and begins.
TEST_F(RecorderTest, ThreadsAndDiscards) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (size_t round = 0; !stop; ++round) {
        const size_t i = t * 1000 + round % 1000;
        Record(i, round, t);
        (void)recorder_.Knows(Object((i + 1500) % 3000));
        if (recorder_.Knows(Object(i))) Free(i, round + 1);
        GRANARY_CHECK(!recorder_.Knows(Object(i)));
      }
    });
  }
  for (int i = 0; i < 300; ++i) {
    recorder_.Discard(*map_);
    ASSERT_TRUE(recorder_.Begin({kRate, 0, 0}));
    recorder_.SetActive(true, kRate);
    std::this_thread::yield();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(head().live_samples, 0u);
  for (size_t i = 0; i < 3000; ++i) ASSERT_EQ(map_->ClassAt(Object(i)), kClass);
}

}  // namespace
}  // namespace granary::samples
