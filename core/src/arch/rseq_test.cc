// Aborts the critical sections before every instruction. First the test single-steps each section
// in an area that the kernel does not know; this records where the instructions begin. Then the
// section runs once for each instruction with a breakpoint there: the signal makes the kernel abort
// the section before that instruction, and the result must equal the result without an abort. Last,
// the test itself aborts each step of a run, loops included, as the kernel does.
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

// The kernel's struct rseq_cs (linux/rseq.h).
struct Section {
  uint32_t version, flags;
  uint64_t start, bytes, abort;

  bool Has(uint64_t ip) const { return ip - start < bytes; }
};

constexpr uint64_t kClass = 3;
constexpr size_t kFloor = kMaxClasses;
constexpr size_t kSlots = kGroup + 2;
constexpr uint64_t kAllocation = 0x10000;

// A cache with one list; `held` of its slots hold objects.
struct Words {
  explicit Words(size_t held) {
    for (size_t i = 1; i <= kSlots; ++i) at[kFloor + i] = i <= held ? 16 * i : 1;
    at[kClass] = kFloor + held;
  }
  bool operator==(const Words&) const = default;

  CacheWords at[kMaxClasses + kSlots + 2] = {};
};

// The result of an operation, the popped pointers, and the cache afterwards.
struct Outcome {
  uint64_t result;
  std::vector<void*> popped;
  Words words;
  bool operator==(const Outcome&) const = default;
};

struct Operation {
  const char* name;
  size_t held;
  std::function<uint64_t(Words&, void** batch)> run;
};

void* Pointer(uintptr_t n) { return reinterpret_cast<void*>(n); }

// Added to the result of DoPop when a sample is due.
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
  const auto pop_group = [](Words&, void** batch) -> uint64_t {
    return arch::PopGroup(kClass, batch, kFloor + kGroup);
  };
  const auto pop_run = [](Words&, void** batch) -> uint64_t {
    return arch::PopRun(kClass, batch, 5, kFloor + 5);
  };
  const auto push_group = [](Words&, void** batch) -> uint64_t {
    for (uintptr_t i = 0; i < kGroup; ++i) batch[i] = Pointer(160 * (i + 1));
    return arch::PushGroup(kClass, batch, kFloor);
  };
  return {{"pop", 3, pop},
          {"pop from an empty list", 0, pop_sample},
          {"pop of a sample", 3, pop_sample},
          {"pop a group", kGroup + 1, pop_group},
          {"pop the last group", kGroup, pop_group},
          {"pop a group from fewer", kGroup - 1, pop_group},
          {"pop a run", 7, pop_run},
          {"pop the last run", 5, pop_run},
          {"pop a run from fewer", 4, pop_run},
          {"push a group", 0, push_group},
          {"push a group to a list that is not empty", 1, push_group},
          {"push", 3, push},
          {"push to a full list", kSlots, push},
          {"pop four", 5, pop_many},
          {"pop the last two", 2, pop_many},
          {"pop four from an empty list", 0, pop_many},
          {"push four", 0, push_many},
          {"push two that fit", kSlots - 2, push_many},
          {"push four to a full list", kSlots, push_many},
          {"store where the word is equal", 3, store},
          {"store where it differs", 1, store},
          {"store in another's cache", 3, store_elsewhere}};
}

// Data that the signal handlers share with the test, which has one thread.
struct Stepper {
  const Section* section = nullptr;  // of the current operation
  // The addresses inside the section in the order of execution. An array, because a signal handler
  // must not allocate.
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

// Runs after each instruction while the trap flag is set.
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

// In assembly, because the sanitizers keep no shadow memory for code.
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
    void* batch[kGroup] = {};
    const uint64_t result = op.run(words, batch);
    return {result, std::vector<void*>(batch, batch + kGroup), words};
  }

  // Single-steps op in anchor.unregistered, which the kernel does not read.
  Outcome Step(const Operation& op, size_t abort_at) {
    thread_area = 0;
    anchor.unregistered = RestartArea{};
    stepper.steps = 0;
    stepper.abort_at = abort_at;
    stepper.aborts = 0;
    Words words(op.held);
    Publish(words);
    void* batch[kGroup] = {};
    SetTrapFlag();
    const uint64_t result = op.run(words, batch);
    ClearTrapFlag();
    anchor.unregistered = RestartArea{};
    return {result, std::vector<void*>(batch, batch + kGroup), words};
  }

  // Runs op in the kernel's area, with a breakpoint at `at`.
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

TEST_F(RseqTest, EachOperationHasItsDocumentedResult) {
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
      EXPECT_EQ(outcome.words.at[kClass] >> 16, 0u) << "the count was one";
    } else if (name == "pop of a sample") {
      EXPECT_EQ(outcome.result, 48u + kDue);
      EXPECT_EQ(cursor, kFloor + 2);
      EXPECT_EQ(counted, 1u) << "one allocation";
    } else if (name == "push") {
      EXPECT_EQ(outcome.words.at[kFloor + 4], 800u);
      EXPECT_EQ(cursor, kFloor + 4);
    } else if (name == "pop four") {
      EXPECT_EQ(outcome.result, 4u);
      for (uintptr_t i = 0; i < 4; ++i) EXPECT_EQ(outcome.popped[i], Pointer(16 * (5 - i)));
      EXPECT_EQ(outcome.words.at[kClass], kFloor + 1) << "none of them an allocation";
    } else if (name == "push two that fit") {
      EXPECT_EQ(outcome.result, 2u);
      EXPECT_EQ(outcome.words.at[kFloor + kSlots], 320u);
      EXPECT_EQ(cursor, kFloor + kSlots);
    } else if (name == "pop a group") {
      EXPECT_EQ(outcome.result, 1u);
      for (uintptr_t i = 0; i < kGroup; ++i) EXPECT_EQ(outcome.popped[i], Pointer(16 * (i + 2)));
      EXPECT_EQ(outcome.words.at[kClass], kFloor + 1) << "none of them an allocation";
    } else if (name == "push a group") {
      EXPECT_EQ(outcome.result, 1u);
      for (uintptr_t i = 1; i <= kGroup; ++i) EXPECT_EQ(outcome.words.at[kFloor + i], 160 * i);
      EXPECT_EQ(cursor, kFloor + kGroup);
    } else if (name == "store where the word is equal") {
      EXPECT_EQ(outcome.result, 1u);
      EXPECT_EQ(outcome.words.at[kFloor + 2], 48u);
    } else if (name.find("empty list") != std::string::npos || name.find("full") != name.npos ||
               name.find("fewer") != name.npos || name.find("not empty") != name.npos ||
               name == "store where it differs" || name == "store in another's cache") {
      EXPECT_EQ(outcome.result, 0u);
      EXPECT_TRUE(outcome.words == Words(op.held));
    }
  }
}

// The thread sanitizer takes its own locks between the instructions of this thread.
#if !defined(GRANARY_THREAD_SANITIZER)

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

// The last instruction of each section is the store that commits.
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
    EXPECT_EQ(value, 0x53053053u) << "the kernel requires the signature before the abort handler";
  }
}

#endif

}  // namespace
}  // namespace granary

#endif
