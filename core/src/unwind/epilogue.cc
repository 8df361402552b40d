#include "unwind/epilogue.h"

#include <cstring>

#include "unwind/table_memory.h"

namespace granary::unwind {

#if defined(__x86_64__)
bool FindEpilogue(uintptr_t pc, Rule* rule) noexcept {
  constexpr uint8_t kAddToSp[] = {0x48, 0x83, 0xc4}, kPopFp = 0x5d, kReturn = 0xc3;
  constexpr int16_t kWord = sizeof(uintptr_t);
  uint8_t code[5];
  TableMemory memory(pc, pc + sizeof code);
  if (!memory.Copy(pc, code, sizeof code)) return false;
  const Place pc_place{.offset = -kWord, .kind = Place::kSaved};
  if (code[0] == kPopFp && code[1] == kReturn) {
    *rule = {.inner = 2 * kWord,
             .pc = pc_place,
             .fp = {.offset = -2 * kWord, .kind = Place::kSaved},
             .kind = Rule::kStep};
    return true;
  }
  const auto freed = static_cast<int8_t>(code[3]);
  const bool adds = std::memcmp(code, kAddToSp, sizeof kAddToSp) == 0 && code[4] == kReturn;
  if (!adds || freed <= 0 || freed % kWord != 0) return false;
  *rule = {.inner = freed + kWord, .pc = pc_place, .kind = Rule::kStep};
  return true;
}
#else
// On arm64 return addresses are in a register: a function that calls another keeps a frame record,
// which the walk uses.
bool FindEpilogue(uintptr_t, Rule*) noexcept { return false; }
#endif

}  // namespace granary::unwind
