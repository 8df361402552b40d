#include "unwind/signal_return.h"

#include <cstring>

#include "unwind/table_memory.h"

namespace granary::unwind {
namespace {

#if defined(__x86_64__)
// mov $15, %rax; syscall. The kernel's struct ucontext is on top of the stack.
constexpr uint8_t kCode[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
constexpr int16_t kFp = 120, kExtra = 128, kSp = 160, kPc = 168;
#elif defined(__aarch64__)
// mov x8, #139; svc #0. Below struct ucontext there is struct siginfo.
constexpr uint8_t kCode[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4};
constexpr int16_t kFp = 544, kExtra = 552, kSp = 560, kPc = 568;
#endif

Place Saved(int16_t offset) { return {.offset = offset, .base = Base::kSp, .kind = Place::kSaved}; }

}  // namespace

bool FindSignalReturn(const Tables& tables, uintptr_t pc, Rule* rule) noexcept {
  uint8_t code[sizeof kCode];
  TableMemory memory(tables.begin, tables.end);
  if (!memory.Copy(pc, code, sizeof code)) return false;
  if (std::memcmp(code, kCode, sizeof code) != 0) return false;
  *rule = {.inner = kSp,
           .pc = Saved(kPc),
           .fp = Saved(kFp),
           .extra = Saved(kExtra),
           .kind = Rule::kStep,
           .base = Base::kSp,
           .loaded = true,
           .signal = true};
  return true;
}

}  // namespace granary::unwind
