// Applies options from text: "name:value,...".
#pragma once

#include "config/options.h"

namespace granary {

// Sets the options that `text` names. Reports a wrong row on stderr and returns false. With
// Source::kRunning, an option that cannot change while the program runs is wrong.
bool ApplyText(Options& o, Piece text, Source from) noexcept;
inline bool ApplyText(Options& o, const char* text, Source from) noexcept {
  return ApplyText(o, {text, __builtin_strlen(text)}, from);
}

}  // namespace granary
