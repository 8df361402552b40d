#include "central/slab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "base/fake_die.h"
#include "central/bin.h"

namespace granary {
namespace {

constexpr unsigned kPageShift = 12;

// A slab over addresses that the tests do not touch.
class TestSlab {
 public:
  explicit TestSlab(SizeClass c, uintptr_t base = uintptr_t{1} << 40)
      : slab_(static_cast<Slab*>(std::aligned_alloc(kCacheLine, RoundUp(Slab::Bytes(c), 64)))) {
    std::memset(static_cast<void*>(slab_), 0, Slab::Bytes(c));
    slab_->Init(reinterpret_cast<char*>(base), c, ~uint64_t{0}, kSlabShape[c].objects);
  }
  ~TestSlab() { std::free(slab_); }
  TestSlab(const TestSlab&) = delete;
  TestSlab& operator=(const TestSlab&) = delete;

  Slab* operator->() const { return slab_; }
  Slab* get() const { return slab_; }

 private:
  Slab* slab_;
};

size_t IndexOf(const Slab* s, const void* p) {
  return static_cast<size_t>(static_cast<const char*>(p) - s->base) / kClassSize[s->size_class];
}

TEST(Slab, AllocatesEachObjectOnceLowestFirst) {
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    TestSlab s(c);
    std::vector<void*> all(kSlabShape[c].objects + 5);
    size_t got = s->Allocate(all.data(), 3, kPageShift);
    got += s->Allocate(all.data() + got, all.size() - got, kPageShift);
    ASSERT_EQ(got, kSlabShape[c].objects);
    for (size_t i = 0; i < got; ++i) ASSERT_EQ(all[i], s->Object(i));
    ASSERT_EQ(s->free, 0);
    ASSERT_EQ(s->Allocate(all.data(), 1, kPageShift), 0u);
    s->Verify();
    EXPECT_LE(s->Object(got - 1) + kClassSize[c], s->base + kSlabShape[c].bytes);
  }
}

void FreeOne(Slab* s, size_t index) {
  void* p = s->Object(index);
  ASSERT_EQ(s->Free(&p, 1), 1u);
}

TEST(Slab, AgreesWithASetOfFreeObjects) {
  std::mt19937 random(4);
  for (SizeClass c = 1; c < kNumSmall; c += 5) {
    TestSlab s(c);
    std::set<size_t> free;
    for (size_t i = 0; i < s->objects; ++i) free.insert(i);
    for (int step = 0; step < 400; ++step) {
      if (random() % 2 == 0) {
        void* to[40];
        const size_t got = s->Allocate(to, 1 + random() % 40, kPageShift);
        for (size_t i = 0; i < got; ++i) {
          ASSERT_EQ(IndexOf(s.get(), to[i]), *free.begin());
          free.erase(free.begin());
        }
      } else {
        // Free stops at the first address that is free already, unaligned or outside the slab.
        void* from[40];
        const size_t n = 1 + random() % 40;
        size_t good = n;
        size_t next = random() % s->objects;
        for (size_t i = 0; i < n; ++i) {
          next = random() % 4 == 0 ? random() % s->objects : (next + 1) % s->objects;
          from[i] = s->Object(next);
          if (good == n && !free.insert(next).second) good = i;
        }
        if (random() % 4 == 0 && good > 0) {
          free.erase(IndexOf(s.get(), from[--good]));
          char* const wrong[] = {s->base - 1, s->base + kSlabShape[c].bytes, s->Object(0) + 1};
          from[good] = wrong[random() % 3];
        }
        ASSERT_EQ(s->Free(from, n), good);
      }
      s->Verify();
      ASSERT_EQ(s->free, free.size());
    }
  }
}

// The pages of the objects in use.
uint64_t UsedPages(const Slab* s) {
  uint64_t used = 0;
  for (size_t i = 0; i < s->objects; ++i) {
    if (s->IsFree(i)) continue;
    const size_t size = kClassSize[s->size_class];
    for (size_t at = i * size >> kPageShift; at <= (i * size + size - 1) >> kPageShift; ++at) {
      used |= uint64_t{1} << at;
    }
  }
  return used;
}

TEST(Slab, FreePagesAreTouchedAndHoldNoObjectInUse) {
  std::mt19937 random(5);
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    TestSlab s(c);
    std::vector<void*> all(s->objects);
    s->Allocate(all.data(), all.size(), kPageShift);
    const uint64_t touched = UsedPages(s.get());
    EXPECT_EQ(s->clean & touched, 0u);
    EXPECT_EQ(s->FreePages(kPageShift), 0u);
    for (size_t i = 0; i < all.size(); ++i) {
      if (random() % 16 != 0) FreeOne(s.get(), i);
    }
    ASSERT_EQ(s->FreePages(kPageShift), touched & ~UsedPages(s.get())) << "class " << c;
  }
}

TEST(Slab, UsingAPageMakesItNeitherCleanNorIdle) {
  TestSlab s(ClassOf(5000));
  s->idle = s->clean = ~uint64_t{0};
  void* p;
  s->Allocate(&p, 1, kPageShift);
  EXPECT_EQ(s->clean, ~uint64_t{3});
  EXPECT_EQ(s->idle, ~uint64_t{3});
}

// The slab of each class with OS pages of 4 KiB and 16 KiB.
TEST(Slab, ObjectsOnAndPagesOfAgree) {
  for (const unsigned shift : {12u, 14u}) {
    for (SizeClass c = 1; c < kNumSmall; ++c) {
      TestSlab s(c);
      for (size_t page = 0; page < kSlabShape[c].bytes >> shift; ++page) {
        const BitRun run = s->ObjectsOn(page, shift);
        for (size_t i = 0; i < s->objects; ++i) {
          const bool on = ((s->PagesOf(i, 1, shift) >> page) & 1) != 0;
          ASSERT_EQ(on, i >= run.first && i < run.first + run.count) << c << " " << page;
        }
      }
    }
  }
}

TEST(Slab, TheListIsTheSixteenthOfItsFreeObjects) {
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    for (const size_t fewer : {0, 1, 7}) {  // a guard takes some
      if (fewer >= kSlabShape[c].objects) continue;
      const size_t objects = kSlabShape[c].objects - fewer;
      TestSlab s(c);
      s->Init(s->base, c, 0, objects);
      for (size_t free = 1; free <= objects; ++free) {
        s->free = static_cast<uint16_t>(free);
        ASSERT_EQ(s->ListByFree(), (free - 1) * Slab::kLists / objects)
            << free << " of " << objects;
      }
    }
  }
}

// Random orders, with runs, and an address at any place that ends the call.
TEST(Slab, FreeStopsAtTheFirstAddressThatIsNoObjectInUse) {
  std::mt19937 random(5);
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    TestSlab s(c);
    std::vector<void*> all(kSlabShape[c].objects);
    for (int round = 0; round < 20; ++round) {
      ASSERT_EQ(s->Allocate(all.data(), all.size(), kPageShift), all.size());
      if (round % 2 == 0) std::shuffle(all.begin(), all.end(), random);
      const size_t stop = random() % all.size();
      std::vector<void*> batch(all.begin(), all.end());
      void* const wrong[] = {s->base - 16, s->base + kSlabShape[c].bytes, s->Object(0) + 1,
                             stop > 0 ? all[0] : s->base + 1};
      batch[stop] = wrong[random() % 4];
      ASSERT_EQ(s->Free(batch.data(), batch.size()), stop);
      s->Verify();
      ASSERT_EQ(s->Free(all.data() + stop, all.size() - stop), all.size() - stop);
      s->Verify();
    }
  }
}

TEST(SlabList, KeepsItsOrder) {
  std::vector<std::unique_ptr<TestSlab>> slabs;
  for (int i = 0; i < 4; ++i) slabs.push_back(std::make_unique<TestSlab>(5));
  SlabList<&Slab::in_queue> list;
  for (auto& s : slabs) list.PushBack(s->get());
  list.Remove(slabs[1]->get());
  list.Remove(slabs[3]->get());
  list.PushBack(slabs[3]->get());
  for (const int i : {0, 2, 3}) {
    ASSERT_EQ(list.first(), slabs[i]->get());
    list.Remove(slabs[i]->get());
  }
  EXPECT_EQ(list.first(), nullptr);
  list.PushBack(slabs[0]->get());
  EXPECT_EQ(list.first(), slabs[0]->get());
}

void FreeIn(Bin& bin, Slab* s, size_t index) {
  FreeOne(s, index);
  bin.Freed(s, 1);
}

class BinTest : public testing::Test {
 protected:
  static constexpr SizeClass kClass = ClassOf(256);

  BinTest() {
    for (uintptr_t i = 0; i < 6; ++i) {
      slabs_.push_back(std::make_unique<TestSlab>(kClass, (i + 1) << 40));
      bin_.Add(slabs_.back()->get(), kPageShift);
    }
  }
  size_t Allocate(size_t slab, size_t n) {
    void* to[256];
    return bin_.Allocate(slabs_[slab]->get(), to, n, kPageShift);
  }

  Bin bin_;
  std::vector<std::unique_ptr<TestSlab>> slabs_;
};

TEST_F(BinTest, TheFullestSlabWithAFreeObjectIsFirst) {
  for (size_t i = 0; i < 6; ++i) Allocate(i, 40 * i);
  EXPECT_EQ(bin_.Fullest(), slabs_[5]->get());
  EXPECT_EQ(Allocate(5, 256), 56u);
  bin_.Verify();
  EXPECT_EQ(bin_.Fullest(), slabs_[4]->get());
  bin_.Remove(slabs_[4]->get(), kPageShift);
  EXPECT_EQ(bin_.Fullest(), slabs_[3]->get());
  EXPECT_EQ(bin_.slabs(), 5u);
  EXPECT_EQ(bin_.free_objects(), 256u + 216 + 176 + 136);
  bin_.Verify();
}

TEST_F(BinTest, FullestIsNullWhenAllAreFull) {
  for (size_t i = 0; i < 6; ++i) Allocate(i, 256);
  EXPECT_EQ(bin_.Fullest(), nullptr);
  EXPECT_EQ(bin_.free_objects(), 0u);
  FreeIn(bin_, slabs_[2]->get(), 17);
  EXPECT_EQ(bin_.Fullest(), slabs_[2]->get());
  bin_.Verify();
}

TEST_F(BinTest, SlabsAreInspectedInTheOrderOfTheirFrees) {
  for (size_t i = 0; i < 6; ++i) Allocate(i, 3);
  for (const size_t i : {4, 1, 4, 3})
    FreeIn(bin_, slabs_[i]->get(), i == 4 ? bin_.queue_length() : 0);
  EXPECT_EQ(bin_.queue_length(), 3u);
  bin_.Remove(slabs_[1]->get(), kPageShift);
  EXPECT_EQ(bin_.NextToInspect(), slabs_[4]->get());
  bin_.Enqueue(slabs_[4]->get());
  EXPECT_EQ(bin_.NextToInspect(), slabs_[3]->get());
  EXPECT_EQ(bin_.NextToInspect(), slabs_[4]->get());
  EXPECT_EQ(bin_.NextToInspect(), nullptr);
}

TEST_F(BinTest, HiddenObjectsCannotBeAllocated) {
  Slab* const s = slabs_[0]->get();
  Allocate(0, 100);
  for (size_t i = 20; i < 60; ++i) FreeIn(bin_, s, i);
  // A page holds 16 objects. All objects of the third page are free, not all of the second and
  // fourth.
  const uint64_t pages = s->FreePages(kPageShift);
  EXPECT_EQ(pages, uint64_t{1} << 2);
  EXPECT_EQ(bin_.Hide(s, pages, kPageShift), 16u);
  bin_.Verify();
  void* to[256];
  const size_t got = bin_.Allocate(s, to, 256, kPageShift);
  EXPECT_EQ(got, 24u + 156);
  for (size_t i = 0; i < got; ++i) ASSERT_NE(IndexOf(s, to[i]) / 16, 2u);
  bin_.Unhide(s, pages, kPageShift);
  bin_.Verify();
  EXPECT_EQ(Allocate(0, 256), 16u);
}

}  // namespace
}  // namespace granary
