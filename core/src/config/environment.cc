#include "config/environment.h"

#include <sys/auxv.h>
#include <unistd.h>

namespace granary {

const char* Environment(const char* name) noexcept {
  if (environ == nullptr || getauxval(AT_SECURE) != 0) return nullptr;
  for (char** row = environ; *row != nullptr; ++row) {
    const char* text = *row;
    const char* rest = name;
    while (*rest != 0 && *text == *rest) ++text, ++rest;
    if (*rest == 0 && *text == '=') return text + 1;
  }
  return nullptr;
}

}  // namespace granary
