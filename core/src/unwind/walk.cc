#include "unwind/cfi.h"
#include "unwind/dwarf_registers.h"
#include "unwind/epilogue.h"
#include "unwind/modules.h"
#include "unwind/rule_cache.h"
#include "unwind/signal_return.h"
#include "unwind/stack.h"
#include "unwind/unwind.h"

namespace granary::unwind {
namespace {

constinit RuleCache rules;

// Addresses may carry a signature in the bits above user space (arm64, PAC).
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
  explicit Walker(const Registers& start)
      : pc_(start.pc), value_{start.sp, start.fp, start.extra, 0}, stack_(start.sp) {}

  bool Step() {
    // arm64's frame record does not contain the stack pointer, which tables need.
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

  // The address of the caller in a list of return addresses.
  uintptr_t Frame() const { return pc_ + (exact_ ? 1 : 0); }
  Stop stop() const { return stop_; }
  bool guessed() const { return guessed_; }

 private:
  bool End(Stop stop) {
    stop_ = stop;
    return false;
  }

  // A call may be the last instruction of its function; the instruction after it then belongs to
  // another function.
  uintptr_t Lookup() const { return pc_ - (exact_ ? 0 : 1); }

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
    // Another thread may be unloading a module, unless a known frame is in it.
    return guessed_ ? rule : Keep(pc ^ module.identity, Derive(module));
  }

  Rule Derive(const Module& module) const {
    Rule rule;
    if (module.stays && FindSignalReturn(module.tables, pc_, &rule)) return rule;
    rule = FindRule(module.tables, Lookup());
    // A return address that no call wrote was stored by hand: there a coroutine ends.
    if (rule.kind == Rule::kNone && !exact_ && FindRule(module.tables, pc_).kind != Rule::kNone) {
      rule.kind = Rule::kOutermost;
    }
    return rule;
  }

  static Rule Keep(uint64_t key, const Rule& rule) {
    rules.Insert(key, rule);
    return rule;
  }

  uintptr_t& Value(Base base) { return value_[static_cast<size_t>(base)]; }

  static uintptr_t Add(uintptr_t value, int32_t offset) {
    return value + static_cast<uintptr_t>(intptr_t{offset});
  }

  bool Find(const Place& place, uintptr_t same, uintptr_t* value) {
    if (__builtin_expect(place.kind == Place::kSaved, 1)) {
      return stack_.Read(Add(Value(place.base), place.offset), value);
    }
    *value = place.kind == Place::kSame ? same : 0;
    return true;
  }

  bool Apply(const Rule& rule) {
    uintptr_t cfa = Add(Value(rule.base), rule.inner);
    if (__builtin_expect(rule.loaded, 0)) {
      if (!stack_.Read(cfa, &cfa)) return End(Stop::kUnreadable);
      cfa = Add(cfa, rule.outer);
    }
    Value(Base::kCfa) = cfa;
    // A signal may have its own stack. A function is frameless only before its first call.
    const bool frameless = rule.pc.kind == Place::kSame && exact_;
    if (!rule.signal && cfa < Value(Base::kSp) + (frameless ? 0 : 1)) return End(Stop::kNoProgress);
    Registers caller{.sp = cfa};
    if (!Find(rule.pc, Value(Base::kExtra), &caller.pc) ||
        !Find(rule.fp, Value(Base::kFp), &caller.fp) ||
        !Find(rule.extra, Value(Base::kExtra), &caller.extra)) {
      return End(Stop::kUnreadable);
    }
    return Enter(caller, rule.signal);
  }

  // No frame of compiled code is larger; a frame further away is on another stack.
  static constexpr uintptr_t kMostGuessed = uintptr_t{1} << 20;

  // Uses the frame pointer, where there are no tables. The next frame must be further out, and its
  // return address must be in code.
  bool Guess() {
    Rule rule;
    // An emulator's code to return from signals is in no module. If the frame before is known, that
    // code is readable.
    if (!guessed_ && FindSignalReturn({pc_, pc_ + kSignalReturnBytes}, pc_, &rule)) {
      return Apply(rule);
    }
    if (!guessed_ && !exact_ && FindEpilogue(pc_, &rule)) return Apply(rule);
    const uintptr_t fp = Value(Base::kFp);
    if (fp == 0 && InLastingModule(Lookup())) return End(Stop::kOutermost);
    Registers caller{.sp = fp + 2 * sizeof(uintptr_t), .extra = Value(Base::kExtra)};
    if (fp < Value(Base::kSp) || fp - Value(Base::kSp) > kMostGuessed ||
        !stack_.Read(fp, &caller.fp) || !stack_.Read(fp + sizeof(uintptr_t), &caller.pc)) {
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
    pc_ = WithoutSignature(caller.pc);
    Value(Base::kSp) = caller.sp;
    Value(Base::kFp) = caller.fp;
    Value(Base::kExtra) = caller.extra;
    exact_ = exact;
    return pc_ != 0 || End(Stop::kOutermost);
  }

  uintptr_t pc_;
  uintptr_t value_[4];  // the values of the bases, in the order of Base
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
