#include "profiler/fault_handlers.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace granary::fault_handlers {
namespace {

// A handler for each time that the program put its own before ours. So one that it restores, as it
// found it, leads to the program's handlers of that time, and not to the one that it took away.
// After the last one, the last is used again.
constexpr size_t kHandlers = 4;
struct sigaction below[kHandlers];  // what each handler was put before
std::atomic<size_t> count{0};       // handlers that may be in use
std::atomic<Inspect> inspect_first{nullptr};

// As if this handler had never been there: the instruction faults again, or the signal is sent
// again where no instruction did.
void PassOn(struct sigaction& to, int signal, siginfo_t* info, void* context) {
  const struct sigaction target = to;
  if ((target.sa_flags & SA_RESETHAND) != 0) to = {};
  if ((target.sa_flags & SA_SIGINFO) != 0) return target.sa_sigaction(signal, info, context);
  if (target.sa_handler != SIG_DFL && target.sa_handler != SIG_IGN) {
    return target.sa_handler(signal);
  }
  sigaction(signal, &target, nullptr);
  if (info->si_code <= 0) raise(signal);
}

// A handler of the program may call the one that it found. That happens with the same context,
// whose uc_link, which the kernel sets to null, says how far the signal has come. What a handler
// that ended by siglongjmp would leave behind in a variable, the next signal does not have.
template <size_t kLevel>
void Handle(int signal, siginfo_t* info, void* argument) {
  auto& context = *static_cast<ucontext_t*>(argument);
  const auto at = reinterpret_cast<uintptr_t>(context.uc_link);
  const auto first = reinterpret_cast<uintptr_t>(&below[0]);
  const bool passed = at >= first && at < first + sizeof below;
  const bool in_circle = passed && at <= reinterpret_cast<uintptr_t>(&below[kLevel]);
  if (const Inspect inspect = inspect_first.load(std::memory_order_relaxed); !passed && inspect) {
    inspect(*info, context);
  }
  struct sigaction& next = below[in_circle ? 0 : kLevel];
  ucontext_t* const before = context.uc_link;
  context.uc_link = reinterpret_cast<ucontext_t*>(&next);
  PassOn(next, signal, info, argument);
  context.uc_link = before;
}

using Handler = void (*)(int, siginfo_t*, void*);
constexpr Handler kHandler[kHandlers] = {Handle<0>, Handle<1>, Handle<2>, Handle<3>};

// kHandlers if the action is the program's.
size_t LevelOf(const struct sigaction& action) {
  size_t level = 0;
  while (level < kHandlers &&
         !((action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == kHandler[level])) {
    ++level;
  }
  return level;
}

// The program's handler runs on the stack that it asks for.
int FlagsFor(const struct sigaction& program) {
  const bool handles = (program.sa_flags & SA_SIGINFO) != 0 ||
                       (program.sa_handler != SIG_DFL && program.sa_handler != SIG_IGN);
  const int kept = program.sa_flags & (SA_NODEFER | SA_RESTART | SA_ONSTACK);
  return SA_SIGINFO | (handles ? kept : kept | SA_ONSTACK);
}

void PutBefore(const struct sigaction& now) {
  const size_t used = count.load(std::memory_order_relaxed);
  const size_t level = used < kHandlers ? used : kHandlers - 1;
  below[level] = now;
  struct sigaction mine = now;
  mine.sa_sigaction = kHandler[level];
  mine.sa_flags = FlagsFor(now);
  sigaction(SIGSEGV, &mine, nullptr);
  count.store(level + 1, std::memory_order_relaxed);
}

}  // namespace

void Install(Inspect inspect) noexcept {
  inspect_first.store(inspect, std::memory_order_relaxed);
  struct sigaction now {};
  if (sigaction(SIGSEGV, nullptr, &now) == 0 && LevelOf(now) == kHandlers) PutBefore(now);
}

void StayFirst() noexcept {
  constexpr uint32_t kSettled = 16;
  static std::atomic<uint32_t> behind{0};
  struct sigaction now {};
  if (sigaction(SIGSEGV, nullptr, &now) != 0) return;
  if (const size_t level = LevelOf(now); level < kHandlers) {
    count.store(level + 1, std::memory_order_relaxed);
    return behind.store(0, std::memory_order_relaxed);
  }
  if (behind.fetch_add(1, std::memory_order_relaxed) >= kSettled) PutBefore(now);
}

void Uninstall() noexcept {
  struct sigaction now {};
  if (sigaction(SIGSEGV, nullptr, &now) != 0) return;
  const size_t level = LevelOf(now);
  if (level == kHandlers) return;
  sigaction(SIGSEGV, &below[level], nullptr);
  count.store(level, std::memory_order_relaxed);
}

}  // namespace granary::fault_handlers
