// The life of an arena, and its memory: regions from the hooks for objects, from Linux for
// metadata.
#include "arena/arena.h"
#include "arena/serving.h"
#include "layers/layers.h"

namespace granary {

constinit __thread Arena* serving __attribute__((tls_model("initial-exec"))) = nullptr;

void* Hooked::Map(size_t bytes, size_t alignment, void* hint) noexcept {
  return serving->MapRegion(bytes, alignment, hint);
}
void Hooked::Unmap(void* p, size_t bytes) noexcept { serving->UnmapRegion(p, bytes); }

bool Hooked::Purge(void* p, size_t bytes) noexcept {
  ExtentHooks* const hooks = serving->hooks;
  return hooks->purge_forced != nullptr &&
         !hooks->purge_forced(hooks, p, bytes, 0, bytes, serving->index_);
}

Arena* Arena::Create(ExtentHooks* hooks, unsigned index) noexcept {
  void* const memory = Linux::Map(RoundUp(sizeof(Arena), 64 * kKiB), 64 * kKiB, nullptr);
  if (memory == nullptr) return nullptr;
  auto* const arena = static_cast<Arena*>(memory);  // the members are valid when zero
  arena->hooks = hooks;
  arena->index_ = index;
  arena->decay[0] = options.dirty_decay_ms;
  arena->decay[1] = options.muzzy_decay_ms;
  arena->SetCap(0);
  arena->Begin();
  return arena;
}

void Arena::Begin() noexcept {
  static std::atomic<uint64_t> serials{0};
  serial_ = serials.fetch_add(1, std::memory_order_relaxed) + 1;
  started_ = Linux::NowMillis();
  pages_.Bind(map_, metadata_);
  central_.Bind(map_, metadata_, pages_);
  pages_.Init();
  central_.Init();
}

// In the global page map, the rows of an arena's memory have no class, and the arena in place of a
// slab.
bool Arena::Claim(void* p, size_t bytes) noexcept {
  Locked hold_map(layers.pages().mutex());
  const bool covered = page_map.Cover<Linux>(p, bytes);
  if (covered) page_map.SetSlab(p, bytes, kNoClass, reinterpret_cast<Slab*>(this));
  return covered;
}

void* Arena::MapRegion(size_t bytes, size_t alignment, void* hint) noexcept {
  const bool hooked = alignment >= kTrackerBytes;
  Locked hold(regions_lock_);
  if (regions_count_ == kMostRegions) return nullptr;
  void* const p = hooked ? AskHooks(bytes, alignment, hint) : Linux::Map(bytes, alignment, hint);
  if (p == nullptr) return nullptr;
  if (hooked && !Claim(p, bytes)) {
    GiveToHooks(p, bytes);
    return nullptr;
  }
  regions_[regions_count_++] = {p, bytes, hooked};
  return p;
}

void* Arena::AskHooks(size_t bytes, size_t alignment, void* hint) noexcept {
  bool zero = true, commit = true;
  ExtentHooks* const from = hooks;
  void* p = nullptr;
  if (hint != nullptr) p = from->alloc(from, hint, bytes, alignment, &zero, &commit, index_);
  if (p == nullptr) p = from->alloc(from, nullptr, bytes, alignment, &zero, &commit, index_);
  if (p == nullptr) return nullptr;
  constexpr uintptr_t kFlagBits = 0xff;  // later versions of jemalloc let hooks put flags there
  p = reinterpret_cast<void*>(AddressOf(p) & ~kFlagBits);
  if (!IsAligned(AddressOf(p), alignment)) {
    GiveToHooks(p, bytes);
    return nullptr;
  }
  if (!zero) __builtin_memset(p, 0, bytes);
  return p;
}

void Arena::GiveToHooks(void* p, size_t bytes) noexcept {
  if (hooks->dalloc != nullptr && !hooks->dalloc(hooks, p, bytes, true, index_)) return;
  if (hooks->destroy != nullptr) hooks->destroy(hooks, p, bytes, true, index_);
}

void Arena::UnmapRegion(void* p, size_t) noexcept {
  Locked hold(regions_lock_);
  size_t i = 0;
  while (i < regions_count_ && regions_[i].p != p) ++i;
  if (i == regions_count_) return;
  const Region region = regions_[i];
  regions_[i] = regions_[--regions_count_];
  Forget(region);
}

void Arena::Forget(const Region& region) noexcept {
  if (!region.hooked) return Linux::Unmap(region.p, region.bytes);
  {
    Locked hold_map(layers.pages().mutex());
    page_map.SetSlab(region.p, region.bytes, kNoClass, nullptr);
  }
  GiveToHooks(region.p, region.bytes);
}

void Arena::Discard(bool again) noexcept {
  while (regions_count_ > 0) Forget(regions_[--regions_count_]);
  layers.arenas().used -= reported_used_.load(std::memory_order_relaxed);
  layers.arenas().dirty -= reported_dirty_.load(std::memory_order_relaxed);
  Arena* const self = this;
  const size_t bytes = RoundUp(sizeof(Arena), 64 * kKiB);
  if (!again) return Linux::Unmap(self, bytes);
  ExtentHooks* const kept_hooks = hooks;
  const unsigned kept_index = index_;
  const size_t kept_cap = cap();
  const int64_t kept_decay[2] = {decay[0], decay[1]};
  Arena* const kept_next = next.load(std::memory_order_relaxed);
  char kept_name[32];
  __builtin_memcpy(kept_name, name, sizeof name);
  Linux::Purge(self, bytes);
  hooks = kept_hooks;
  index_ = kept_index;
  next.store(kept_next, std::memory_order_relaxed);
  SetCap(kept_cap);
  decay[0] = kept_decay[0];
  decay[1] = kept_decay[1];
  __builtin_memcpy(name, kept_name, sizeof name);
  Begin();
}

}  // namespace granary
