#include "unwind/expression.h"

#include "unwind/cursor.h"
#include "unwind/dwarf_registers.h"

namespace granary::unwind {
namespace {

enum Operation : uint8_t {
  kDeref = 0x06,
  kConst1u = 0x08,
  kConst1s,
  kConst2u,
  kConst2s,
  kConst4u,
  kConst4s,
  kConst8u,
  kConst8s,
  kConstu,
  kConsts,
  kDup,
  kDrop,
  kOver,
  kSwap = 0x16,
  kAnd = 0x1a,
  kMinus = 0x1c,
  kMul = 0x1e,
  kNeg,
  kNot,
  kOr,
  kPlus,
  kPlusUconst,
  kShl,
  kShr,
  kShra,
  kXor,
  kEq = 0x29,
  kGe,
  kGt,
  kLe,
  kLt,
  kNe,
  kLit0 = 0x30,
  kBreg0 = 0x70,
  kBregx = 0x92,
  kNop = 0x96,
};

Symbolic Number(int64_t value) { return {.kind = Symbolic::kNumber, .outer = value}; }

Symbolic Register(uint64_t number, int64_t offset, uintptr_t pc) {
  Symbolic value;
#if defined(__x86_64__)
  if (number == kPcNumber) return Number(static_cast<int64_t>(pc) + offset);
#endif
  static_cast<void>(pc);
  if (!BaseOf(number, &value.base)) return value;
  value.kind = Symbolic::kRegister;
  value.inner = offset;
  return value;
}

int64_t Wrap(uint64_t value) { return static_cast<int64_t>(value); }
uint64_t Bits(int64_t value) { return static_cast<uint64_t>(value); }
int64_t Sum(int64_t a, int64_t b) { return Wrap(Bits(a) + Bits(b)); }

Symbolic Add(Symbolic value, int64_t number) {
  int64_t& term = value.kind == Symbolic::kRegister ? value.inner : value.outer;
  term = Sum(term, number);
  return value;
}

Symbolic Load(Symbolic value) {
  if (value.kind != Symbolic::kRegister) return {};
  value.kind = Symbolic::kLoaded;
  return value;
}

int64_t Compute(uint8_t operation, int64_t a, int64_t b) {
  const unsigned shift = Bits(b) < 64 ? static_cast<unsigned>(b) : 63;
  switch (operation) {
    case kAnd:
      return a & b;
    case kOr:
      return a | b;
    case kXor:
      return a ^ b;
    case kMul:
      return Wrap(Bits(a) * Bits(b));
    case kShl:
      return Wrap(Bits(a) << shift);
    case kShr:
      return Wrap(Bits(a) >> shift);
    case kShra:
      return a >> shift;
    case kEq:
      return a == b;
    case kGe:
      return a >= b;
    case kGt:
      return a > b;
    case kLe:
      return a <= b;
    case kLt:
      return a < b;
    default:
      return a != b;
  }
}

Symbolic Combine(uint8_t operation, Symbolic a, Symbolic b) {
  const bool numbers = a.kind == Symbolic::kNumber && b.kind == Symbolic::kNumber;
  if (operation == kPlus && a.kind == Symbolic::kNumber) return Add(b, a.outer);
  if (operation == kPlus && b.kind == Symbolic::kNumber) return Add(a, b.outer);
  if (operation == kMinus && b.kind == Symbolic::kNumber) return Add(a, Wrap(-Bits(b.outer)));
  if (operation == kPlus || operation == kMinus || !numbers) return {};
  return Number(Compute(operation, a.outer, b.outer));
}

bool IsBinary(uint8_t operation) {
  return operation == kAnd || operation == kMinus || operation == kMul || operation == kOr ||
         operation == kPlus || (operation >= kShl && operation <= kXor) ||
         (operation >= kEq && operation <= kNe);
}

class Machine {
 public:
  explicit Machine(uintptr_t pc) : pc_(pc) {}

  void Push(Symbolic value) {
    if (depth_ == kDepth) return Fail();
    stack_[depth_++] = value;
  }
  Symbolic Pop() {
    if (depth_ == 0) {
      Fail();
      return {};
    }
    return stack_[--depth_];
  }
  bool failed() const { return failed_; }

  void Run(uint8_t operation, Cursor& code) {
    if (operation >= kLit0 && operation < kLit0 + 32) return Push(Number(operation - kLit0));
    if (operation >= kBreg0 && operation < kBreg0 + 32) {
      return Push(Register(operation - kBreg0, code.Signed(), pc_));
    }
    if (operation >= kConst1u && operation <= kConsts) return PushConstant(operation, code);
    if (!IsBinary(operation)) return RunOther(operation, code);
    const Symbolic b = Pop();
    const Symbolic a = Pop();
    Push(Combine(operation, a, b));
  }

 private:
  static constexpr size_t kDepth = 8;

  void Fail() { failed_ = true; }

  void PushConstant(uint8_t operation, Cursor& code) {
    // The encodings of constants follow each other in this order.
    constexpr uint8_t kEncodings[] = {0, 0, 0x2, 0xa, 0x3, 0xb, 0x4, 0xc, 0x1, 0x9};
    if (operation == kConst1u) return Push(Number(code.Byte()));
    if (operation == kConst1s) return Push(Number(static_cast<int8_t>(code.Byte())));
    Push(Number(Wrap(code.Length(kEncodings[operation - kConst1u]))));
  }

  void RunOther(uint8_t operation, Cursor& code) {
    switch (operation) {
      case kDeref:
        return Push(Load(Pop()));
      case kPlusUconst:
        return Push(Add(Pop(), Wrap(code.Unsigned())));
      case kBregx: {
        const uint64_t number = code.Unsigned();
        return Push(Register(number, code.Signed(), pc_));
      }
      case kNeg:
        return Push(Combine(kMinus, Number(0), Pop()));
      case kNot:
        return Push(Combine(kXor, Number(-1), Pop()));
      case kDrop:
        Pop();
        return;
      case kNop:
        return;
      default:
        return Reorder(operation);
    }
  }

  void Reorder(uint8_t operation) {
    const Symbolic top = Pop();
    if (operation == kDup) {
      Push(top);
      return Push(top);
    }
    const Symbolic second = Pop();
    if (operation != kOver && operation != kSwap) return Fail();
    if (operation == kOver) Push(second);
    Push(top);
    Push(second);
  }

  uintptr_t pc_;
  size_t depth_ = 0;
  bool failed_ = false;
  Symbolic stack_[kDepth];
};

}  // namespace

Symbolic Evaluate(TableMemory& memory, uintptr_t begin, uintptr_t end, uintptr_t pc,
                  Symbolic first) noexcept {
  // Without jumps, an expression has at most as many operations as bytes.
  constexpr uintptr_t kMostBytes = 256;
  if (end < begin || end - begin > kMostBytes) return {};
  Machine machine(pc);
  machine.Push(first);
  Cursor code(memory, begin, end);
  while (!code.AtEnd() && !machine.failed()) machine.Run(code.Byte(), code);
  const Symbolic result = machine.Pop();
  return code.failed() || machine.failed() ? Symbolic{} : result;
}

}  // namespace granary::unwind
