#include "upkeep/trim.h"

#include "config/options.h"
#include "layers/layers.h"
#include "upkeep/upkeep.h"

namespace granary {

GRANARY_SELDOM static size_t Trim(bool unmap) noexcept {
  Linux::PrepareToAbort();
  Upkeep::Exclusive alone(upkeep);
  PageHeap<Linux>& pages = layers.pages();
  const auto released = [&] { return pages.Stats().released + layers.central().released_bytes(); };
  const size_t before = released();
  layers.front().Flush();
  alone.Yield();
  layers.depot().DrainAll();
  alone.Yield();
  // Pages of a slab are purged when the slab is inspected for the second time.
  for (int i = 0; i < 2; ++i) upkeep.PurgeSlabs(Central<Linux>::Eligible::kIdlePages);
  pages.CountFilled();
  upkeep.PurgeSpans(~size_t{0});
  if (unmap) pages.UnmapFree();
  pages.PurgeMap();
  layers.metadata().PurgeFree(0);
  return released() - before;
}

size_t Trim() noexcept { return Trim(!options.retain); }
size_t TrimAndUnmap() noexcept { return Trim(true); }

void FlushCaches() noexcept {
  Linux::PrepareToAbort();
  const Upkeep::Exclusive alone(upkeep);
  layers.front().Flush();
  layers.depot().DrainAll();
}

}  // namespace granary
