// How to get from one place in the code to its caller. Small, so that it can be kept
// (rule_cache.h).
#pragma once

#include <cstdint>

namespace granary::unwind {

// What an offset counts from. kCfa is the canonical frame address: the caller's stack pointer.
enum class Base : uint8_t { kSp, kFp, kExtra, kCfa };

// Where the caller's value of a register is.
struct Place {
  enum Kind : uint8_t { kSame, kSaved, kLost };
  int16_t offset = 0;
  Base base = Base::kCfa;
  Kind kind = kSame;
};

struct Rule {
  enum Kind : uint8_t {
    kNone,  // no table knows this place
    kStep,
    kOutermost,    // a table says that nobody called
    kNotFollowed,  // a table says something that rules cannot express
  };
  // The canonical frame address is base + inner, or, if `loaded`, the word there, + outer.
  int32_t inner = 0;
  int32_t outer = 0;
  Place pc{}, fp{}, extra{};
  Kind kind = kNone;
  Base base = Base::kSp;
  bool loaded = false;
  bool signal = false;  // the caller was interrupted: its pc is not that of a return
};
static_assert(sizeof(Rule) == 24);

}  // namespace granary::unwind
