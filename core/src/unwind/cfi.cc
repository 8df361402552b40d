#include "unwind/cfi.h"

#include <cstddef>

#include "unwind/dwarf_registers.h"
#include "unwind/expression.h"
#include "unwind/frame_entry.h"

namespace granary::unwind {
namespace {

// How the table describes the caller's value of one register.
struct Column {
  enum Kind : uint8_t { kSame, kAtOffset, kExpression, kUndefined, kOther };
  Kind kind = kSame;
  int64_t offset = 0;  // distance from the canonical frame address
  uintptr_t begin = 0, end = 0;
};

enum ColumnName { kPc, kFp, kExtra, kColumns };

struct Row {
  Column column[kColumns];
  uint64_t cfa_register = 0;
  int64_t cfa_offset = 0;
  uintptr_t cfa_begin = 0, cfa_end = 0;  // an expression instead, if not empty
};

enum Instruction : uint8_t {
  kNop,
  kSetLoc,
  kAdvance1,
  kAdvance2,
  kAdvance4,
  kOffsetExtended,
  kRestoreExtended,
  kUndefined,
  kSameValue,
  kRegister,
  kRememberState,
  kRestoreState,
  kDefCfa,
  kDefCfaRegister,
  kDefCfaOffset,
  kDefCfaExpression,
  kExpression,
  kOffsetExtendedSigned,
  kDefCfaSigned,
  kDefCfaOffsetSigned,
  kValOffset,
  kValOffsetSigned,
  kValExpression,
  kNegateReturnStateWithPc = 0x2c,
  kNegateReturnState = 0x2d,
  kArgsSize = 0x2e,
  kNegativeOffsetExtended = 0x2f,
  // Instructions with an operand in the low six bits:
  kAdvance = 0x40,
  kOffset = 0x80,
  kRestore = 0xc0,
};

// Runs the program of an entry up to the row of one address.
class Program {
 public:
  Program(TableMemory& memory, const FrameEntry& entry, uintptr_t pc)
      : memory_(memory), entry_(entry), pc_(pc) {}

  bool Run() {
    // The common part makes the row to which `restore` refers.
    if (!RunPart(entry_.common_program, entry_.common_end)) return false;
    initial_ = row_;
    location_ = entry_.begin;
    return RunPart(entry_.program, entry_.program_end);
  }

  const Row& row() const { return row_; }

 private:
  static constexpr size_t kMostRemembered = 6;
  // The longest programs belong to generated functions of megabytes.
  static constexpr size_t kMostInstructions = size_t{1} << 16;

  bool RunPart(uintptr_t begin, uintptr_t end) {
    Cursor code(memory_, begin, end);
    for (size_t i = 0; i < kMostInstructions; ++i) {
      if (code.AtEnd() || location_ > pc_) return !code.failed();
      if (!RunOne(code.Byte(), code)) return false;
    }
    return false;
  }

  // The column of a register, or a spare column for registers that no rule uses.
  Column& ColumnOf(uint64_t number) {
    if (number == entry_.return_register) return row_.column[kPc];
    if (number == kFpNumber) return row_.column[kFp];
    if (number == kExtraNumber) return row_.column[kExtra];
    return unused_;
  }

  bool RunOne(uint8_t instruction, Cursor& code) {
    constexpr uint8_t kOperand = 0x3f;
    const uint64_t operand = instruction & kOperand;
    switch (instruction & ~kOperand) {
      case kAdvance:
        location_ += operand * entry_.code_unit;
        return true;
      case kOffset:
        SetOffset(operand, Scale(code.Unsigned()));
        return true;
      case kRestore:
        Restore(operand);
        return true;
      default:
        return RunLocation(instruction, code) || RunCfa(instruction, code) ||
               RunColumn(instruction, code) || RunState(instruction, code);
    }
  }

  bool RunLocation(uint8_t instruction, Cursor& code) {
    switch (instruction) {
      case kNop:
        return true;
      case kSetLoc:
        location_ = code.Address(entry_.encoding);
        return true;
      case kAdvance1:
        location_ += code.Byte() * entry_.code_unit;
        return true;
      case kAdvance2:
        location_ += code.Fixed<uint16_t>() * entry_.code_unit;
        return true;
      case kAdvance4:
        location_ += code.Fixed<uint32_t>() * entry_.code_unit;
        return true;
      case kArgsSize:
        code.Unsigned();
        return true;
      default:
        return false;
    }
  }

  bool RunCfa(uint8_t instruction, Cursor& code) {
    switch (instruction) {
      case kDefCfa:
        row_.cfa_register = code.Unsigned();
        row_.cfa_offset = static_cast<int64_t>(code.Unsigned());
        row_.cfa_begin = row_.cfa_end = 0;
        return true;
      case kDefCfaSigned:
        row_.cfa_register = code.Unsigned();
        row_.cfa_offset = Scale(static_cast<uint64_t>(code.Signed()));
        row_.cfa_begin = row_.cfa_end = 0;
        return true;
      case kDefCfaRegister:
        row_.cfa_register = code.Unsigned();
        row_.cfa_begin = row_.cfa_end = 0;
        return true;
      case kDefCfaOffset:
        row_.cfa_offset = static_cast<int64_t>(code.Unsigned());
        return true;
      case kDefCfaOffsetSigned:
        row_.cfa_offset = Scale(static_cast<uint64_t>(code.Signed()));
        return true;
      case kDefCfaExpression:
        return Block(code, &row_.cfa_begin, &row_.cfa_end);
      default:
        return false;
    }
  }

  bool RunColumn(uint8_t instruction, Cursor& code) {
    if (instruction < kOffsetExtended) return false;
    if (instruction > kValExpression && instruction != kNegativeOffsetExtended) return false;
    if (instruction == kRememberState || instruction == kRestoreState) return false;
    const uint64_t number = code.Unsigned();
    switch (instruction) {
      case kOffsetExtended:
        SetOffset(number, Scale(code.Unsigned()));
        return true;
      case kOffsetExtendedSigned:
        SetOffset(number, Scale(static_cast<uint64_t>(code.Signed())));
        return true;
      case kNegativeOffsetExtended:
        SetOffset(number, Scale(uint64_t{0} - code.Unsigned()));
        return true;
      case kRestoreExtended:
        Restore(number);
        return true;
      case kUndefined:
        ColumnOf(number) = {.kind = Column::kUndefined};
        return true;
      case kSameValue:
        ColumnOf(number) = {};
        return true;
      case kExpression: {
        Column& column = ColumnOf(number);
        column.kind = Column::kExpression;
        return Block(code, &column.begin, &column.end);
      }
      case kValExpression: {
        Column& column = ColumnOf(number);
        column.kind = Column::kOther;
        return Block(code, &column.begin, &column.end);
      }
      default:  // in another register, or a value instead of an address
        code.Unsigned();
        ColumnOf(number) = {.kind = Column::kOther};
        return true;
    }
  }

  bool RunState(uint8_t instruction, Cursor& code) {
    switch (instruction) {
      case kRememberState:
        if (remembered_ == kMostRemembered) return false;
        memory_of_rows_[remembered_++] = row_;
        return true;
      case kRestoreState:
        if (remembered_ == 0) return false;
        row_ = memory_of_rows_[--remembered_];
        return true;
#if defined(__aarch64__)
      // Whether the address is signed does not matter: the signature is always removed.
      case kNegateReturnState:
        return true;
      case kNegateReturnStateWithPc:
        code.Unsigned();
        return true;
#endif
      default:
        static_cast<void>(code);
        return false;
    }
  }

  bool Block(Cursor& code, uintptr_t* begin, uintptr_t* end) {
    const uint64_t bytes = code.Unsigned();
    *begin = code.at();
    code.Skip(bytes);
    *end = code.at();
    return !code.failed();
  }

  int64_t Scale(uint64_t offset) const {
    return static_cast<int64_t>(offset * static_cast<uint64_t>(entry_.data_unit));
  }

  void SetOffset(uint64_t number, int64_t offset) {
    ColumnOf(number) = {.kind = Column::kAtOffset, .offset = offset};
  }

  void Restore(uint64_t number) {
    Column& column = ColumnOf(number);
    if (&column != &unused_) column = initial_.column[&column - row_.column];
  }

  TableMemory& memory_;
  const FrameEntry& entry_;
  uintptr_t pc_;
  uint64_t location_ = 0;
  Row row_, initial_;
  Column unused_;
  size_t remembered_ = 0;
  Row memory_of_rows_[kMostRemembered];
};

// Translates a row into a rule, or finds that no rule can express it.
class Translation {
 public:
  Translation(TableMemory& memory, uintptr_t pc) : memory_(memory), pc_(pc) {}

  Rule Translate(const Row& row, bool signal) {
    Rule rule;
    rule.kind = Rule::kStep;
    rule.signal = signal;
    if (row.column[kPc].kind == Column::kUndefined) {
      rule.kind = Rule::kOutermost;
      return rule;
    }
    if (!SetFrame(row, &rule)) return {.kind = Rule::kNotFollowed};
    rule.pc = PlaceOf(row.column[kPc], rule);
    rule.fp = PlaceOf(row.column[kFp], rule);
    rule.extra = kExtraNumber == kPcNumber ? rule.pc : PlaceOf(row.column[kExtra], rule);
    const bool in_register = rule.pc.kind == Place::kSame && kExtraNumber != kPcNumber;
    if (rule.pc.kind == Place::kLost || in_register) return {.kind = Rule::kNotFollowed};
    return rule;
  }

 private:
  bool SetFrame(const Row& row, Rule* rule) {
    Symbolic frame;
    if (row.cfa_end > row.cfa_begin) {
      frame = Evaluate(memory_, row.cfa_begin, row.cfa_end, pc_, {});
    } else if (BaseOf(row.cfa_register, &frame.base)) {
      frame.kind = Symbolic::kRegister;
      frame.inner = row.cfa_offset;
    }
    rule->base = frame.base;
    rule->loaded = frame.kind == Symbolic::kLoaded;
    rule->inner = static_cast<int32_t>(frame.inner);
    rule->outer = static_cast<int32_t>(frame.outer);
    const bool known = frame.kind == Symbolic::kRegister || rule->loaded;
    return known && rule->inner == frame.inner && rule->outer == frame.outer;
  }

  static bool IsSmall(int64_t offset) { return static_cast<int16_t>(offset) == offset; }

  Place PlaceOf(const Column& column, const Rule& rule) {
    Symbolic at{.kind = Symbolic::kRegister, .base = Base::kCfa, .inner = column.offset};
    if (column.kind == Column::kSame) return {.kind = Place::kSame};
    if (column.kind == Column::kExpression) {
      at.inner = 0;
      at = Evaluate(memory_, column.begin, column.end, pc_, at);
    } else if (column.kind != Column::kAtOffset) {
      at.kind = Symbolic::kUnknown;
    }
    // Large frames may keep registers at their inner end, far from the outer end.
    if (at.base == Base::kCfa && !rule.loaded && !IsSmall(at.inner)) {
      at.base = rule.base;
      at.inner += rule.inner;
    }
    const auto offset = static_cast<int16_t>(at.inner);
    if (at.kind != Symbolic::kRegister || !IsSmall(at.inner)) return {.kind = Place::kLost};
    return {.offset = offset, .base = at.base, .kind = Place::kSaved};
  }

  TableMemory& memory_;
  uintptr_t pc_;
};

}  // namespace

Rule FindRule(const Tables& tables, uintptr_t pc) noexcept {
  TableMemory memory(tables.begin, tables.end);
  FrameEntry entry;
  if (!FindEntry(memory, tables, pc, &entry)) return {.kind = Rule::kNone};
  Program program(memory, entry, pc);
  if (!program.Run()) return {.kind = Rule::kNotFollowed};
  return Translation(memory, pc).Translate(program.row(), entry.signal);
}

}  // namespace granary::unwind
