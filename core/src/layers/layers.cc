#include "layers/layers.h"

#include "arch/processor.h"

namespace granary {

template class Front<Linux>;

// The linker places these two and `upkeep` next to each other (core/apart.ld), at the start of a
// page. A small process then touches the fewest pages, and always the same number.
__attribute__((section(".bss.page_map"))) constinit PageMap page_map{};
alignas(kMinOsPage) __attribute__((section(".bss.layers"))) constinit Layers layers;

namespace {

SizeClass LargestCached() {
  if (!options.Caches() || options.cache_max < kClassSize[1]) return kNoClass;
  SizeClass c = kNumClasses - 1;
  while (kClassSize[c] > static_cast<size_t>(options.cache_max)) --c;
  return c;
}

ReadyLists WantedReadyLists() {
  if (options.hardened || options.ready_lists == 2) return ReadyLists::kNever;
  if (options.ready_lists == 1) return ReadyLists::kAlways;
  return arch::ForwardsStoresFast() ? ReadyLists::kNever : ReadyLists::kOnTrial;
}

}  // namespace

void Layers::Bind() noexcept {
  if (!options.trap_empty) CacheEmpty();
  if (options.hardened) TakeSlowPaths();
  pages_.Bind(page_map, metadata_);
  central_.Bind(page_map, metadata_, pages_);
  depot_.Bind(metadata_, central_);
  front_.Bind(metadata_, depot_);
  pages_.Init();
  pages_.SetGuards(options.hardened);
  central_.Init();
  central_.SetGuards(options.hardened);
  front_.Init();
  front_.SetLargestCached(LargestCached());
}

// A thread that finds a ready list in use goes on in the front, so the front must be complete.
void Layers::SetReady() noexcept {
  SetReadyLists(WantedReadyLists());
  ready_.store(true, std::memory_order_release);
}

void Layers::Free(void* p) noexcept {
  const SizeClass c = ObjectClassAt(page_map, p);
  if (c == kNoClass) return FreeLarge(p, pages_.LargeSize(p));
  if (options.FillsFreed()) FillFreed(c, p);
  front_.Free(c, p);
}

void Layers::FillFreed(SizeClass c, void* p) noexcept {
  if (central_.IsUsed(c, p)) __builtin_memset(p, 0x5a, kClassSize[c]);
}

}  // namespace granary
