// Options from text: "name:value,...".
#pragma once

#include "config/options.h"

namespace granary {

// Sets what `text` names. False if a row was wrong, which is then reported on stderr. From
// Source::kRunning on, rows of options that cannot change while the program runs are wrong.
bool ApplyText(Options& o, Piece text, Source from) noexcept;
inline bool ApplyText(Options& o, const char* text, Source from) noexcept {
  return ApplyText(o, {text, __builtin_strlen(text)}, from);
}

}  // namespace granary
