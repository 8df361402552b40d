// Which parts of the statistics are printed, and for which arenas.
#pragma once

#include "arena/arenas.h"
#include "base/writer.h"
#include "compat/jemalloc/arena_index.h"
#include "compat/jemalloc/figures.h"
#include "compat/jemalloc/output.h"

namespace granary::jemalloc {

struct Parts {
  bool json = false, general = true, merged = true, arenas = true, bins = true, large = true,
       mutexes = true, extents = true;

  explicit Parts(const char* letters) {
    for (; letters != nullptr && *letters != 0; ++letters) {
      switch (*letters) {
        case 'J':
          json = true;
          break;
        case 'g':
          general = false;
          break;
        case 'm':
          merged = false;
          break;
        case 'a':
          arenas = false;
          break;
        case 'b':
          bins = false;
          break;
        case 'l':
          large = false;
          break;
        case 'x':
          mutexes = false;
          break;
        case 'e':
          extents = false;
          break;
        default:
          break;
      }
    }
  }
};

// Calls visit(key, name, figures) for the requested arenas. The sum of all arenas has no name.
template <class Visit>
void ForEachArena(const Parts& parts, Visit&& visit) {
  if (parts.merged) visit("merged", nullptr, *FiguresOf(kAllArenas));
  for (size_t i = 0; parts.arenas && i < ArenaCount(); ++i) {
    const ArenaFigures* const figures = FiguresOf(i);
    if (figures == nullptr) continue;
    char key[24];
    Writer w(key, sizeof key - 1);
    key[w.Number(i).size()] = 0;
    visit(key, NameOfArena(i), *figures);
  }
}

void PrintJson(Output& out, const Parts& parts) noexcept;

}  // namespace granary::jemalloc
