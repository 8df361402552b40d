#include "profiler/sampled_guards.h"

#include <signal.h>
#include <ucontext.h>

#include "config/options.h"
#include "layers/layers.h"
#include "profiler/call_stack.h"
#include "profiler/fault_handlers.h"
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

// Not inlined: a fault elsewhere must not need its stack, which may be a small alternate one.
GRANARY_COLD void ReportFault(const void* p, const ucontext_t& context) {
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

void Inspect(const siginfo_t& info, const ucontext_t& context) {
  if (info.si_code > 0 && pool.Holds(info.si_addr) && !reported.exchange(true)) {
    ReportFault(info.si_addr, context);
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
    fault_handlers::Install(Inspect);
  } else {
    fault_handlers::Uninstall();
  }
  installed.store(wanted, std::memory_order_release);
  return true;
}

void* Allocate(size_t size) noexcept {
  if (!installed.load(std::memory_order_acquire) || options.guard_sample == 0) return nullptr;
  if (layers.profile().Collects() || size > pool.MostBytes()) return nullptr;
  fault_handlers::StayFirst();
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
