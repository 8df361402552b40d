#include "profiler/sampled_guards.h"

#include <signal.h>
#include <ucontext.h>

#include "config/options.h"
#include "layers/layers.h"
#include "profiler/call_stack.h"
#include "profiler/guard_pool.h"
#include "profiler/guard_report.h"

namespace granary::sampled_guards {
namespace {

using profiler::GuardedObject;
using profiler::GuardStack;
using State = GuardedObject::State;

constinit profiler::GuardPool<Linux> pool;
std::atomic<bool> installed{false};
std::atomic<bool> reported{false};
std::atomic<uint32_t> handling{0};  // the thread that runs the handler
// Where a signal goes on to: the handler that was there last, and the one before all of them.
struct sigaction previous, original;

void Capture(GuardStack& stack) {
  const profiler::CallStack here;
  stack.Set(Linux::ThreadId(), here.frames + here.first, here.end - here.first);
}

#if defined(__aarch64__)
// The kernel says in a record of its own how the memory was accessed; an emulator may omit it.
const char* AccessOf(const mcontext_t& context) {
  struct Record {
    uint32_t magic, size;
    uint64_t syndrome;
  };
  constexpr uint32_t kSyndromeMagic = 0x45535201;
  constexpr uint64_t kWrites = 1 << 6;
  const auto* const records = reinterpret_cast<const unsigned char*>(context.__reserved);
  for (size_t at = 0; at + sizeof(Record) <= sizeof context.__reserved;) {
    Record record;
    __builtin_memcpy(&record, records + at, sizeof record);
    if (record.magic == kSyndromeMagic) return (record.syndrome & kWrites) != 0 ? "write" : "read";
    if (record.magic == 0 || record.size < sizeof(Record)) break;
    at += record.size;
  }
  return "access";
}
#endif

// The registers at the instruction that faulted, and whether it writes.
unwind::Registers RegistersOf(const ucontext_t& context, const char** access) {
  unwind::Registers r;
#if defined(__x86_64__)
  const auto* const g = context.uc_mcontext.gregs;
  r.pc = static_cast<uintptr_t>(g[REG_RIP]);
  r.sp = static_cast<uintptr_t>(g[REG_RSP]);
  r.fp = static_cast<uintptr_t>(g[REG_RBP]);
  r.extra = static_cast<uintptr_t>(g[REG_RBX]);
  *access = (g[REG_ERR] & 2) != 0 ? "write" : "read";
#else
  r.pc = context.uc_mcontext.pc;
  r.sp = context.uc_mcontext.sp;
  r.fp = context.uc_mcontext.regs[29];
  r.extra = context.uc_mcontext.regs[30];
  *access = AccessOf(context.uc_mcontext);
#endif
  return r;
}

const char* NameOf(const GuardedObject* o, const void* p, const char* access) {
  const bool freed = o != nullptr && o->state.load(std::memory_order_relaxed) == State::kFreed;
  const bool reads = access[0] == 'r', writes = access[0] == 'w';
  if (freed) return reads ? "read after free" : writes ? "write after free" : "use after free";
  if (o != nullptr && AddressOf(p) < AddressOf(o->p)) {
    return reads    ? "read before an object"
           : writes ? "write before an object"
                    : "access before an object";
  }
  return reads    ? "read beyond an object"
         : writes ? "write beyond an object"
                  : "access beyond an object";
}

void ReportFault(const void* p, const ucontext_t& context) {
  const char* access;
  const unwind::Registers start = RegistersOf(context, &access);
  uintptr_t frames[GuardStack::kMost];
  unwind::Result how;
  GuardStack stack;
  const size_t depth = unwind::Walk(start, frames + 1, GuardStack::kMost - 1, &how);
  frames[0] = start.pc;
  const bool repeats = depth > 0 && frames[1] == start.pc;
  stack.Set(Linux::ThreadId(), repeats ? frames + 1 : frames, repeats ? depth : depth + 1);
  const GuardedObject* const o = pool.NearestTo(p);
  profiler::ReportGuard(NameOf(o, p, access), p, o, stack);
}

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

// A handler that the program installed later may call this one, which it found there.
void Handle(int signal, siginfo_t* info, void* context) {
  const uint32_t self = Linux::ThreadId();
  if (handling.load(std::memory_order_relaxed) == self) {
    return PassOn(original, signal, info, context);
  }
  if (info->si_code > 0 && pool.Holds(info->si_addr) && !reported.exchange(true)) {
    ReportFault(info->si_addr, *static_cast<const ucontext_t*>(context));
  }
  const uint32_t before = handling.exchange(self, std::memory_order_relaxed);
  PassOn(previous, signal, info, context);
  handling.store(before, std::memory_order_relaxed);
}

bool IsMine(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == Handle;
}

// Puts the handler before the program's.
void Install() {
  struct sigaction now {};
  if (sigaction(SIGSEGV, nullptr, &now) != 0 || IsMine(now)) return;
  previous = now;
  now.sa_sigaction = Handle;
  now.sa_flags = SA_SIGINFO | SA_ONSTACK | (now.sa_flags & (SA_NODEFER | SA_RESTART));
  sigaction(SIGSEGV, &now, nullptr);
}

// Goes before a handler that the program installed later, once it has stayed for some samples: one
// that a probe of memory installs for a moment is left alone.
void StayFirst() {
  constexpr uint32_t kSettled = 16;
  static std::atomic<uint32_t> behind{0};
  struct sigaction now {};
  if (sigaction(SIGSEGV, nullptr, &now) != 0) return;
  if (IsMine(now)) return behind.store(0, std::memory_order_relaxed);
  if (behind.fetch_add(1, std::memory_order_relaxed) >= kSettled) Install();
}

// Leaves a handler that the program has installed since.
void Uninstall() {
  struct sigaction now {};
  if (sigaction(SIGSEGV, nullptr, &now) == 0 && IsMine(now)) {
    sigaction(SIGSEGV, &previous, nullptr);
  }
}

[[noreturn]] void DieOf(const char* what, const void* p) {
  GuardStack stack;
  Capture(stack);
  profiler::ReportGuard(what, p, pool.NearestTo(p), stack);
  Linux::Abort();
}

}  // namespace

uint64_t Rate() noexcept {
  const bool on = installed.load(std::memory_order_acquire);
  return on ? static_cast<uint64_t>(options.guard_sample) : 0;
}

bool Prepare() noexcept {
  const bool wanted = options.guard_sample > 0 && !options.hardened;
  if (wanted == installed.load(std::memory_order_acquire)) return wanted;
  if (wanted && !pool.Init(layers.metadata(), layers.pages().OsPage())) return false;
  if (wanted) {
    Install();
    original = previous;
  } else {
    Uninstall();
  }
  installed.store(wanted, std::memory_order_release);
  return true;
}

void* Allocate(size_t size) noexcept {
  if (!installed.load(std::memory_order_acquire) || options.guard_sample == 0) return nullptr;
  if (layers.profile().Collects() || size > pool.MostBytes()) return nullptr;
  StayFirst();
  const profiler::CallStack here;
  return pool.Allocate(size, Linux::ThreadId(), here.frames + here.first, here.end - here.first);
}

bool Holds(const void* p) noexcept { return pool.Holds(p); }

void Free(void* p) noexcept {
  GuardedObject* const o = pool.LiveAt(p);
  const GuardedObject* const near = pool.NearestTo(p);
  if (o == nullptr)
    DieOf(near != nullptr && near->p == p ? "double free" : "free of an unaligned address", p);
  if (!pool.MarginIsWhole(*o)) DieOf("write beyond an object, found by free,", p);
  const profiler::CallStack here;
  if (!pool.Free(*o, Linux::ThreadId(), here.frames + here.first, here.end - here.first)) {
    DieOf("double free", p);
  }
}

size_t SizeOf(const void* p, const char* verb) noexcept {
  const GuardedObject* const o = pool.LiveAt(p);
  if (o == nullptr) DieOf(verb, p);
  return o->size;
}

}  // namespace granary::sampled_guards
