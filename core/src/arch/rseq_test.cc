// The critical sections, interrupted everywhere. First each is stepped through outside of the
// kernel's care, which tells where its instructions begin. Then it runs once for each of them with
// a breakpoint there: the signal makes the kernel abort the section before that instruction, and
// the result must be as if nothing had happened. At last each step of its course, loops included,
// is aborted as the kernel would do it.
#include "arch/rseq.h"

#include <gtest/gtest.h>

#if defined(__x86_64__)

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/fake_die.h"

extern "C" {
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace granary {
namespace {

// As the kernel reads it (linux/rseq.h).
struct Section {
  uint32_t version, flags;
  uint64_t start, bytes, abort;

  bool Has(uint64_t ip) const { return ip - start < bytes; }
};

constexpr uint64_t kClass = 3;
constexpr size_t kFloor = kMaxClasses;
constexpr size_t kSlots = kBlock + 2;
constexpr uint64_t kAllocation = 0x10000;

// A cache of one list whose slots are above its floor, of which `held` are taken.
struct Words {
  explicit Words(size_t held) {
    for (size_t i = 1; i <= kSlots; ++i) at[kFloor + i] = i <= held ? 16 * i : 1;
    at[kClass] = kFloor + held;
  }
  bool operator==(const Words&) const = default;

  CacheWords at[kMaxClasses + kSlots + 2] = {};
};

// What an operation returned and left behind.
struct Outcome {
  uint64_t result;
  std::vector<void*> taken;
  Words words;
  bool operator==(const Outcome&) const = default;
};

struct Operation {
  const char* name;
  size_t held;
  std::function<uint64_t(Words&, void** batch)> run;
};

void* Pointer(uintptr_t n) { return reinterpret_cast<void*>(n); }

// Marks the pointer where a sample is due.
constexpr uint64_t kDue = uint64_t{1} << 60;
__attribute__((noinline)) uint64_t DoPop() {
  bool due = false;
  void* const p = arch::Pop(kClass, &due);
  return AddressOf(p) + (due ? kDue : 0);
}
__attribute__((noinline)) bool DoPush(void* p) { return arch::Push(kClass, p); }

std::vector<Operation> Operations() {
  const auto pop = [](Words& words, void**) {
    words.at[kClass] += kAllocation;
    return DoPop();
  };
  const auto pop_sample = [](Words&, void**) { return DoPop(); };
  const auto push = [](Words&, void**) -> uint64_t { return DoPush(Pointer(800)); };
  const auto pop_many = [](Words&, void** batch) { return arch::PopMany(kClass, batch, 4); };
  const auto push_many = [](Words&, void** batch) {
    for (uintptr_t i = 0; i < 4; ++i) batch[i] = Pointer(160 * (i + 1));
    return arch::PushMany(kClass, batch, 4);
  };
  const auto store = [](Words& words, void**) -> uint64_t {
    return arch::CompareStore(words.at, kFloor + 2, 32, 48);
  };
  const auto store_elsewhere = [](Words& words, void**) -> uint64_t {
    return arch::CompareStore(words.at + 1, kFloor + 2, 32, 48);
  };
  const auto pop_block = [](Words&, void** batch) -> uint64_t {
    return arch::PopBlock(kClass, batch, kFloor + kBlock);
  };
  const auto pop_run = [](Words&, void** batch) -> uint64_t {
    return arch::PopRun(kClass, batch, 5, kFloor + 5);
  };
  const auto push_block = [](Words&, void** batch) -> uint64_t {
    for (uintptr_t i = 0; i < kBlock; ++i) batch[i] = Pointer(160 * (i + 1));
    return arch::PushBlock(kClass, batch, kFloor);
  };
  return {{"pop", 3, pop},
          {"pop of nothing", 0, pop_sample},
          {"pop of a sample", 3, pop_sample},
          {"pop a block", kBlock + 1, pop_block},
          {"pop a block of the last", kBlock, pop_block},
          {"pop a block of fewer", kBlock - 1, pop_block},
          {"pop a run", 7, pop_run},
          {"pop a run of the last", 5, pop_run},
          {"pop a run of fewer", 4, pop_run},
          {"push a block", 0, push_block},
          {"push a block where not empty", 1, push_block},
          {"push", 3, push},
          {"push where full", kSlots, push},
          {"pop four", 5, pop_many},
          {"pop the last two", 2, pop_many},
          {"pop four of nothing", 0, pop_many},
          {"push four", 0, push_many},
          {"push two that fit", kSlots - 2, push_many},
          {"push four where full", kSlots, push_many},
          {"store what fits", 3, store},
          {"store where it differs", 1, store},
          {"store in another's cache", 3, store_elsewhere}};
}

// What the signal handlers share with the test; there is one thread.
struct Stepper {
  const Section* section = nullptr;  // of the operation that is stepped through
  // Each address in the section, as it was come by; a handler must not allocate.
  uint64_t course[256];
  size_t steps = 0;
  size_t abort_at = ~size_t{0};  // the step to abort
  uint8_t* breakpoint = nullptr;
  uint8_t replaced = 0;
  size_t aborts = 0;
};
Stepper stepper;

RestartArea* KernelArea() {
  return reinterpret_cast<RestartArea*>(static_cast<char*>(__builtin_thread_pointer()) +
                                        __rseq_offset);
}
uintptr_t Relative(const RestartArea* area) {
  return AddressOf(area) - AddressOf(&anchor.unregistered);
}

// After each instruction, while the trap flag is set.
[[maybe_unused]] void OnStep(int, siginfo_t*, void* context) {
  auto& ip = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  const auto* const section = reinterpret_cast<const Section*>(anchor.unregistered.sequence);
  if (section == nullptr || !section->Has(static_cast<uint64_t>(ip))) return;
  stepper.section = section;
  const size_t step = stepper.steps++;
  stepper.course[step % std::size(stepper.course)] = static_cast<uint64_t>(ip);
  if (step != stepper.abort_at) return;
  ++stepper.aborts;
  anchor.unregistered.sequence = 0;
  ip = static_cast<greg_t>(section->abort);
}

// The sanitizers have no shadow of the code.
void SetCode(uint8_t* at, uint8_t byte) {
  __asm__ volatile("movb %1, (%0)" ::"r"(at), "q"(byte) : "memory");
}
uint8_t GetCode(const uint8_t* at) {
  uint8_t byte;
  __asm__ volatile("movb (%1), %0" : "=q"(byte) : "r"(at) : "memory");
  return byte;
}

[[maybe_unused]] void OnBreakpoint(int, siginfo_t*, void* context) {
  SetCode(stepper.breakpoint, stepper.replaced);
  const auto ip =
      static_cast<uint64_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  stepper.aborts += ip == stepper.section->abort;
}

[[maybe_unused]] void SetHandler(void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGTRAP, &action, nullptr), 0);
}

void SetTrapFlag() { __asm__ volatile("pushfq\norq $0x100, (%%rsp)\npopfq" ::: "memory", "cc"); }
void ClearTrapFlag() {
  __asm__ volatile("pushfq\nandq $~0x100, (%%rsp)\npopfq" ::: "memory", "cc");
}

class RseqTest : public testing::Test {
 protected:
  RseqTest() { index_ = anchor.cache_index; }
  ~RseqTest() override {
    for (CacheWords*& cache : anchor.cache) cache = anchor.null_cache;
    anchor.cache_index = index_;
    anchor.unregistered = RestartArea{.cpu_id = -1, .concurrency_id = -1};
    thread_area = 0;
    signal(SIGTRAP, SIG_DFL);
  }

  static void Publish(Words& words) {
    for (CacheWords*& cache : anchor.cache) cache = words.at;
  }

  Outcome Run(const Operation& op) {
    Words words(op.held);
    Publish(words);
    void* batch[kBlock] = {};
    const uint64_t result = op.run(words, batch);
    return {result, std::vector<void*>(batch, batch + kBlock), words};
  }

  // Outside of the kernel's care: it looks at its own area only.
  Outcome Step(const Operation& op, size_t abort_at) {
    thread_area = 0;
    anchor.unregistered = RestartArea{};
    stepper.steps = 0;
    stepper.abort_at = abort_at;
    stepper.aborts = 0;
    Words words(op.held);
    Publish(words);
    void* batch[kBlock] = {};
    SetTrapFlag();
    const uint64_t result = op.run(words, batch);
    ClearTrapFlag();
    anchor.unregistered = RestartArea{};
    return {result, std::vector<void*>(batch, batch + kBlock), words};
  }

  // With a breakpoint at `at`, under the kernel's care.
  Outcome Break(const Operation& op, uint64_t at) {
    thread_area = Relative(KernelArea());
    stepper.aborts = 0;
    stepper.breakpoint = reinterpret_cast<uint8_t*>(at);
    stepper.replaced = GetCode(stepper.breakpoint);
    SetCode(stepper.breakpoint, 0xcc);
    Outcome outcome = Run(op);
    thread_area = 0;
    return outcome;
  }

  static void MakeWritable(const Section& section) {
    const auto page = static_cast<uintptr_t>(getpagesize());
    const uintptr_t begin = section.start & ~(page - 1);
    const uintptr_t end = (section.start + section.bytes + page - 1) & ~(page - 1);
    ASSERT_EQ(
        mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE | PROT_EXEC),
        0);
  }

  static bool KernelRunsSequences() {
    return &__rseq_offset != nullptr && &__rseq_size != nullptr && __rseq_size > 0 &&
           KernelArea()->cpu_id >= 0;
  }

 private:
  int32_t* index_;
};

TEST_F(RseqTest, OperationsDoWhatTheySay) {
  thread_area = 0;
  anchor.unregistered = RestartArea{};
  for (const Operation& op : Operations()) {
    SCOPED_TRACE(op.name);
    const Outcome outcome = Run(op);
    const std::string name = op.name;
    const size_t cursor = outcome.words.at[kClass] & 0xffff;
    const uint64_t counted = (kFloor + op.held - outcome.words.at[kClass]) / kAllocation;
    if (name == "pop") {
      EXPECT_EQ(outcome.result, 48u);
      EXPECT_EQ(cursor, kFloor + 2);
      EXPECT_EQ(outcome.words.at[kClass] >> 16, 0u) << "one allocation of one that was left";
    } else if (name == "pop of a sample") {
      EXPECT_EQ(outcome.result, 48u + kDue);
      EXPECT_EQ(cursor, kFloor + 2);
      EXPECT_EQ(counted, 1u) << "one allocation";
    } else if (name == "push") {
      EXPECT_EQ(outcome.words.at[kFloor + 4], 800u);
      EXPECT_EQ(cursor, kFloor + 4);
    } else if (name == "pop four") {
      EXPECT_EQ(outcome.result, 4u);
      for (uintptr_t i = 0; i < 4; ++i) EXPECT_EQ(outcome.taken[i], Pointer(16 * (5 - i)));
      EXPECT_EQ(outcome.words.at[kClass], kFloor + 1) << "none of them an allocation";
    } else if (name == "push two that fit") {
      EXPECT_EQ(outcome.result, 2u);
      EXPECT_EQ(outcome.words.at[kFloor + kSlots], 320u);
      EXPECT_EQ(cursor, kFloor + kSlots);
    } else if (name == "pop a block") {
      EXPECT_EQ(outcome.result, 1u);
      for (uintptr_t i = 0; i < kBlock; ++i) EXPECT_EQ(outcome.taken[i], Pointer(16 * (i + 2)));
      EXPECT_EQ(outcome.words.at[kClass], kFloor + 1) << "none of them an allocation";
    } else if (name == "push a block") {
      EXPECT_EQ(outcome.result, 1u);
      for (uintptr_t i = 1; i <= kBlock; ++i) EXPECT_EQ(outcome.words.at[kFloor + i], 160 * i);
      EXPECT_EQ(cursor, kFloor + kBlock);
    } else if (name == "store what fits") {
      EXPECT_EQ(outcome.result, 1u);
      EXPECT_EQ(outcome.words.at[kFloor + 2], 48u);
    } else if (name.find("nothing") != std::string::npos || name.find("full") != name.npos ||
               name.find("fewer") != name.npos || name.find("not empty") != name.npos ||
               name == "store where it differs" || name == "store in another's cache") {
      EXPECT_EQ(outcome.result, 0u);
      EXPECT_TRUE(outcome.words == Words(op.held));
    }
  }
}

// The thread sanitizer takes locks of its own between the instructions of this one thread.
#if !defined(__SANITIZE_THREAD__)

TEST_F(RseqTest, AnAbortBeforeAnyInstructionChangesNothing) {
  ASSERT_TRUE(KernelRunsSequences()) << "run this on Linux 4.18 or later with glibc 2.35 or later";
  for (const Operation& op : Operations()) {
    SCOPED_TRACE(op.name);
    SetHandler(OnStep);
    const Outcome expected = Step(op, ~size_t{0});
    ASSERT_GT(stepper.steps, 0u);
    ASSERT_LT(stepper.steps, std::size(stepper.course));
    const std::set<uint64_t> instructions(stepper.course, stepper.course + stepper.steps);
    MakeWritable(*stepper.section);
    SetHandler(OnBreakpoint);
    for (const uint64_t at : instructions) {
      const Outcome outcome = Break(op, at);
      ASSERT_EQ(stepper.aborts, 1u) << "at byte " << at - stepper.section->start;
      ASSERT_TRUE(outcome == expected) << "at byte " << at - stepper.section->start;
    }
  }
}

TEST_F(RseqTest, AnAbortAtAnyStepChangesNothing) {
  SetHandler(OnStep);
  for (const Operation& op : Operations()) {
    SCOPED_TRACE(op.name);
    const Outcome expected = Step(op, ~size_t{0});
    const size_t steps = stepper.steps;
    ASSERT_GT(steps, 2u);
    for (size_t step = 0; step < steps; ++step) {
      const Outcome outcome = Step(op, step);
      ASSERT_EQ(stepper.aborts, 1u) << "step " << step;
      ASSERT_TRUE(outcome == expected) << "step " << step;
    }
  }
}

// The last instruction of each section is the store that commits: nothing of it is seen before.
TEST_F(RseqTest, NothingButSlotsChangesBeforeTheCommit) {
  SetHandler(OnStep);
  for (const Operation& op : Operations()) {
    SCOPED_TRACE(op.name);
    Step(op, ~size_t{0});
    const Section section = *stepper.section;
    EXPECT_LT(section.start + section.bytes - stepper.course[stepper.steps - 1], section.bytes);
    EXPECT_EQ(section.flags, 0u);
    EXPECT_EQ(section.version, 0u);
    const auto* const signature = reinterpret_cast<const uint8_t*>(section.abort) - 4;
    uint32_t value = 0;
    for (int i = 3; i >= 0; --i) value = value << 8 | GetCode(signature + i);
    EXPECT_EQ(value, 0x53053053u) << "the kernel jumps only behind the signature";
  }
}

#endif

}  // namespace
}  // namespace granary

#endif
