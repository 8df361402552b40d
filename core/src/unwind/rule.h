// The step from an address in the code to its caller. Small, so that rules can be cached
// (rule_cache.h).
#pragma once

#include <cstdint>

namespace granary::unwind {

// The origin of an offset. kCfa is the canonical frame address: the caller's stack pointer.
enum class Base : uint8_t { kSp, kFp, kExtra, kCfa };

// Where the caller's value of a register is stored.
struct Place {
  enum Kind : uint8_t { kSame, kSaved, kLost };
  int16_t offset = 0;
  Base base = Base::kCfa;
  Kind kind = kSame;
};

struct Rule {
  enum Kind : uint8_t {
    kNone,  // no table describes this address
    kStep,
    kOutermost,    // a table marks the outermost function
    kNotFollowed,  // a rule cannot express the table's description
  };
  // The canonical frame address is base + inner. If `loaded`, it is the word at that address, +
  // outer.
  int32_t inner = 0;
  int32_t outer = 0;
  Place pc{}, fp{}, extra{};
  Kind kind = kNone;
  Base base = Base::kSp;
  bool loaded = false;
  bool signal = false;  // a signal interrupted the caller: its pc is not a return address
};
static_assert(sizeof(Rule) == 24);

}  // namespace granary::unwind
