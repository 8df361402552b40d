// The class of the objects at an address, where one that is sampled may lie beside it.
#pragma once

#include "central/slab.h"
#include "pages/page_map.h"

namespace granary {

// As PageMap::ClassAt, but never kSampledClass.
inline SizeClass ObjectClassAt(const PageMap& map, const void* p) {
  for (;;) {
    const SizeClass c = map.ClassAt(p);
    if (c != kSampledClass) [[likely]]
      return c;
    Slab* const slab = map.SlabAt(p);
    if (PageMap::IsSlab(slab)) return slab->size_class;
    if (slab != nullptr) return static_cast<SizeClass>(AddressOf(slab));
  }  // the sample went meanwhile
}

}  // namespace granary
