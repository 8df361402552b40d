// A class grows while another thread uses the cache. The test interrupts the growing thread at each
// instruction; the handler pops or pushes on the same CPU, and the thread continues there or on
// another CPU. No object may be lost or duplicated.
#include "front/growth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/fake_die.h"
#include "os/fake_os.h"

// The thread sanitizer takes its own locks between the instructions of this thread.
#if defined(__x86_64__) && !defined(GRANARY_THREAD_SANITIZER)

#include <signal.h>
#include <ucontext.h>

namespace granary {
namespace {

using TestCache = Cache<FakeOs>;

// A class with few slots, so that few instructions fill them: two, then four, then eight.
constexpr SizeClass kClass = ClassOf(16 * kKiB);
static_assert(ShortCapacity(kClass) == 2 && LongCapacity(kClass) == 8);

enum class Event { kNothing, kPop, kPush, kPopAll, kFill };

// The event that the handler runs at step `at`.
struct Interruption {
  size_t at = ~size_t{0};
  Event event = Event::kNothing;
  bool migrate = false;
  size_t step = 0;
  TestCache* cache = nullptr;
  void* popped[300] = {};
  size_t popped_count = 0;
  uintptr_t pushed = 0;  // objects 1000 and up
};
Interruption interruption;
RestartArea area;

void* Object(uintptr_t n) { return reinterpret_cast<void*>(n * 16); }

void DoEvent() {
  CacheWords* const words = interruption.cache->words;
  size_t times =
      interruption.event == Event::kPopAll || interruption.event == Event::kFill ? 290 : 1;
  for (; times > 0; --times) {
    if (interruption.event == Event::kPop || interruption.event == Event::kPopAll) {
      void* const p = exclusive::Pop(words, kClass);
      if (p != nullptr) interruption.popped[interruption.popped_count++] = p;
    } else if (interruption.event != Event::kNothing) {
      void* p = Object(1000 + interruption.pushed);
      interruption.pushed += exclusive::PushMany(words, kClass, &p, 1);
    }
  }
}

// Restarts an interrupted critical section as the kernel does.
void Restart(greg_t& ip) {
  struct Section {
    uint32_t version, flags;
    uint64_t start, bytes, abort;
  };
  const auto* const section = reinterpret_cast<const Section*>(area.sequence);
  if (section == nullptr) return;
  if (static_cast<uint64_t>(ip) - section->start < section->bytes) {
    ip = static_cast<greg_t>(section->abort);
  }
  area.sequence = 0;
}

void OnStep(int, siginfo_t*, void* context) {
  if (interruption.step++ != interruption.at) return;
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  Restart(registers[REG_RIP]);
  registers[REG_EFL] &= ~greg_t{0x100};  // the steps after the event need no trap
  DoEvent();
  if (interruption.migrate) area.cpu_id = area.concurrency_id = 1;
}

void SetTrapFlag() { __asm__ volatile("pushfq\norq $0x100, (%%rsp)\npopfq" ::: "memory", "cc"); }
void ClearTrapFlag() {
  __asm__ volatile("pushfq\nandq $~0x100, (%%rsp)\npopfq" ::: "memory", "cc");
}

class GrowthTest : public testing::Test {
 protected:
  GrowthTest() {
    struct sigaction action {};
    action.sa_sigaction = OnStep;
    action.sa_flags = SA_SIGINFO;
    EXPECT_EQ(sigaction(SIGTRAP, &action, nullptr), 0);
    thread_area = AddressOf(&area) - AddressOf(&anchor.unregistered);
  }
  ~GrowthTest() override {
    for (CacheWords*& cache : anchor.cache) cache = anchor.null_cache;
    thread_area = 0;
    signal(SIGTRAP, SIG_DFL);
  }

  // Makes two CPU caches: one with `held` objects in `slots` slots, the other with one object in
  // two slots.
  void Start(size_t slots, size_t held) {
    area = RestartArea{};
    interruption = Interruption{};
    for (size_t i = 0; i < 2; ++i) {
      cache_[i] = std::make_unique<TestCache>();
      cache_[i]->Init();
      anchor.cache[kUnregisteredIndices + i] = cache_[i]->words;
    }
    interruption.cache = cache_[0].get();
    spilled_.clear();
    while (cache_[0]->capacity[kClass] < slots) ASSERT_TRUE(Grow(0));
    area.cpu_id = area.concurrency_id = 1;
    ASSERT_TRUE(Grow(1));
    area.cpu_id = area.concurrency_id = 0;
    for (uintptr_t i = 1; i <= held; ++i) Put(0, Object(i));
    Put(1, Object(held + 1));
    objects_ = held + 1;
  }

  bool Grow(size_t cpu) {
    return Growth<FakeOs>::Grow(
        cache_[cpu].get(), kClass, kGiB,
        [this](void* const* from, size_t n) { spilled_.insert(spilled_.end(), from, from + n); });
  }

  void Put(size_t cpu, void* p) {
    ASSERT_EQ(exclusive::PushMany(cache_[cpu]->words, kClass, &p, 1), 1u);
  }

  // Steps through one growth; returns the number of instructions.
  size_t StepThrough() {
    spilled_.reserve(16);
    interruption.step = 0;
    SetTrapFlag();
    Grow(0);
    ClearTrapFlag();
    return interruption.step;
  }

  void Check() {
    for (const auto& cache : cache_) cache->Verify();
    std::vector<void*> all = spilled_;
    all.insert(all.end(), interruption.popped, interruption.popped + interruption.popped_count);
    for (const auto& cache : cache_) {
      while (void* p = exclusive::Pop(cache->words, kClass)) all.push_back(p);
    }
    std::vector<void*> expected;
    for (uintptr_t i = 1; i <= objects_; ++i) expected.push_back(Object(i));
    for (uintptr_t i = 0; i < interruption.pushed; ++i) expected.push_back(Object(1000 + i));
    std::sort(all.begin(), all.end());
    ASSERT_EQ(all, expected);
  }

  std::unique_ptr<TestCache> cache_[2];
  std::vector<void*> spilled_;
  size_t objects_ = 0;
};

struct Case {
  size_t slots, held;
};

TEST_F(GrowthTest, AnInterruptionAtAnyInstructionLosesNoObject) {
  for (const auto& [slots, held] : {Case{0, 0}, Case{2, 1}, Case{2, 2}, Case{4, 3}}) {
    Start(slots, held);
    const size_t steps = StepThrough();
    Check();
    // Each step takes microseconds, and sanitizers add many steps: so each of the eight
    // combinations of event and migration tests its own part of the instructions.
    const size_t stride = steps * steps / 20000 + 1;
    size_t combination = 0;
    for (const Event event : {Event::kPop, Event::kPush, Event::kPopAll, Event::kFill}) {
      for (const bool migrate : {false, true}) {
        for (size_t at = combination++ * stride / 8; at < steps; at += stride) {
          Start(slots, held);
          interruption.at = at;
          interruption.event = event;
          interruption.migrate = migrate;
          StepThrough();
          SCOPED_TRACE(testing::Message() << slots << " slots, " << held << " held, event "
                                          << static_cast<int>(event) << ", step " << at);
          Check();
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
}

}  // namespace
}  // namespace granary

#endif
