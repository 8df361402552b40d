// The size class of the object at an address, also when the page holds a sample.
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
  }  // another thread freed the sample in between
}

}  // namespace granary
