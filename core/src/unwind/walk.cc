#include "unwind/cfi.h"
#include "unwind/dwarf_registers.h"
#include "unwind/modules.h"
#include "unwind/rule_cache.h"
#include "unwind/signal_return.h"
#include "unwind/stack.h"
#include "unwind/unwind.h"

namespace granary::unwind {
namespace {

constinit RuleCache rules;

// Addresses may carry a signature above what user space uses (arm64, PAC).
uintptr_t WithoutSignature(uintptr_t pc) {
#if defined(__aarch64__)
  register uintptr_t x30 __asm__("x30") = pc;
  __asm__("hint #7" : "+r"(x30));  // xpaclri; older processors do nothing
  return x30;
#else
  return pc;
#endif
}

constexpr bool kReturnInRegister = kExtraNumber == kPcNumber;

class Walker {
 public:
  explicit Walker(const Registers& start) : at_(start), stack_(start.sp) {}

  bool Step() {
    // The frame record of arm64 says nothing about the stack pointer, which tables need.
    if (guessed_ && kReturnInRegister) return Guess();
    const Rule rule = RuleHere();
    switch (rule.kind) {
      case Rule::kStep:
        return Apply(rule);
      case Rule::kOutermost:
        return End(Stop::kOutermost);
      case Rule::kNotFollowed:
        return End(Stop::kNoRule);
      default:
        return Guess();
    }
  }

  // What stands for the caller in a list of return addresses.
  uintptr_t Frame() const { return at_.pc + (exact_ ? 1 : 0); }
  Stop stop() const { return stop_; }
  bool guessed() const { return guessed_; }

 private:
  bool End(Stop stop) {
    stop_ = stop;
    return false;
  }

  // A call may be the last instruction of its function; what follows is another one.
  uintptr_t Lookup() const { return at_.pc - (exact_ ? 0 : 1); }

  Rule RuleHere() {
    const uintptr_t pc = Lookup();
    Rule rule;
    if (InLastingModule(pc)) {
      if (rules.Find(pc, &rule)) return rule;
      Module module;
      return FindModule(pc, &module) ? Keep(pc, Derive(module)) : rule;
    }
    Module module;
    if (!FindModule(pc, &module)) return rule;
    if (rules.Find(pc ^ module.identity, &rule)) return rule;
    // Another thread may be unloading a module that no frame of ours is known to be in.
    return guessed_ ? rule : Keep(pc ^ module.identity, Derive(module));
  }

  Rule Derive(const Module& module) const {
    Rule rule;
    if (module.stays && FindSignalReturn(module.tables, at_.pc, &rule)) return rule;
    rule = FindRule(module.tables, Lookup());
    // A function to return to that was not called was put there by hand: where coroutines end.
    if (rule.kind == Rule::kNone && !exact_ &&
        FindRule(module.tables, at_.pc).kind != Rule::kNone) {
      rule.kind = Rule::kOutermost;
    }
    return rule;
  }

  static Rule Keep(uint64_t key, const Rule& rule) {
    rules.Insert(key, rule);
    return rule;
  }

  // What offsets count from, in the order of Base.
  using Values = uintptr_t[4];

  static uintptr_t Add(uintptr_t value, int32_t offset) {
    return value + static_cast<uintptr_t>(intptr_t{offset});
  }

  bool Find(const Place& place, const Values& values, uintptr_t same, uintptr_t* value) {
    if (__builtin_expect(place.kind == Place::kSaved, 1)) {
      return stack_.Read(Add(values[static_cast<size_t>(place.base)], place.offset), value);
    }
    *value = place.kind == Place::kSame ? same : 0;
    return true;
  }

  bool Apply(const Rule& rule) {
    Values values = {at_.sp, at_.fp, at_.extra, 0};
    uintptr_t cfa = Add(values[static_cast<size_t>(rule.base)], rule.inner);
    if (__builtin_expect(rule.loaded, 0)) {
      if (!stack_.Read(cfa, &cfa)) return End(Stop::kUnreadable);
      cfa = Add(cfa, rule.outer);
    }
    values[static_cast<size_t>(Base::kCfa)] = cfa;
    // A signal may have its own stack. Only where nothing was called yet is there no frame at all.
    const bool frameless = rule.pc.kind == Place::kSame && exact_;
    if (!rule.signal && cfa < at_.sp + (frameless ? 0 : 1)) return End(Stop::kNoProgress);
    Registers caller{.sp = cfa};
    if (!Find(rule.pc, values, at_.extra, &caller.pc) ||
        !Find(rule.fp, values, at_.fp, &caller.fp) ||
        !Find(rule.extra, values, at_.extra, &caller.extra)) {
      return End(Stop::kUnreadable);
    }
    return Enter(caller, rule.signal);
  }

  // No frame of compiled code is larger; another stack is further away.
  static constexpr uintptr_t kMostGuessed = uintptr_t{1} << 20;

  // By the frame pointer, where there are no tables. It must lie further out, and lead to code.
  bool Guess() {
    Rule rule;
    // An emulator's code to return from signals is in no module. Of a frame that is known to be
    // ours the code is there.
    if (!guessed_ && FindSignalReturn({at_.pc, at_.pc + kSignalReturnBytes}, at_.pc, &rule)) {
      return Apply(rule);
    }
    if (at_.fp == 0 && InLastingModule(Lookup())) return End(Stop::kOutermost);
    Registers caller{.sp = at_.fp + 2 * sizeof(uintptr_t), .extra = at_.extra};
    if (at_.fp < at_.sp || at_.fp - at_.sp > kMostGuessed || !stack_.Read(at_.fp, &caller.fp) ||
        !stack_.Read(at_.fp + sizeof(uintptr_t), &caller.pc)) {
      return End(Stop::kNoRule);
    }
    guessed_ = true;
    return IsCode(WithoutSignature(caller.pc)) ? Enter(caller, false) : End(Stop::kNoRule);
  }

  static bool IsCode(uintptr_t pc) {
    Module module;
    if (pc == 0) return true;
    return FindModule(pc, &module) ||
           Linux::IsReadable(reinterpret_cast<const void*>(pc & ~uintptr_t{7}));
  }

  bool Enter(const Registers& caller, bool exact) {
    at_ = caller;
    at_.pc = WithoutSignature(at_.pc);
    exact_ = exact;
    return at_.pc != 0 || End(Stop::kOutermost);
  }

  Registers at_;
  Stack stack_;
  Stop stop_ = Stop::kFull;
  bool exact_ = true;
  bool guessed_ = false;
};

}  // namespace

size_t Walk(const Registers& start, uintptr_t* frames, size_t max, Result* result) noexcept {
  Walker walker(start);
  size_t count = 0;
  while (count < max && walker.Step()) frames[count++] = walker.Frame();
  *result = {.stop = walker.stop(), .guessed = walker.guessed()};
  return count;
}

void Refresh() noexcept { RefreshModules(); }

}  // namespace granary::unwind
