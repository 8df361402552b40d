#include "entry/jemalloc/arena.h"

#include "entry/heap.h"
#include "entry/jemalloc/fill.h"

namespace granary::jemalloc {
namespace {

// Whose call the thread is in: Hooked is static.
constinit __thread Arena* serving __attribute__((tls_model("initial-exec"))) = nullptr;

}  // namespace

class Arena::Serving {
 public:
  explicit Serving(Arena* arena) : before_(serving) { serving = arena; }
  ~Serving() { serving = before_; }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  Arena* before_;  // a hook may allocate from another arena
};

void* Hooked::Map(size_t bytes, size_t alignment, void* hint) noexcept {
  return serving->MapRegion(bytes, alignment, hint);
}
void Hooked::Unmap(void* p, size_t bytes) noexcept { serving->UnmapRegion(p, bytes); }

bool Hooked::Release(void* p, size_t bytes) noexcept {
  ExtentHooks* const hooks = serving->hooks;
  return hooks->purge_forced != nullptr &&
         !hooks->purge_forced(hooks, p, bytes, 0, bytes, serving->index_);
}

Arena* Arena::Create(ExtentHooks* hooks, unsigned index) noexcept {
  void* const memory = Linux::Map(RoundUp(sizeof(Arena), 64 * kKiB), 64 * kKiB, nullptr);
  if (memory == nullptr) return nullptr;
  auto* const arena = static_cast<Arena*>(memory);  // its members are valid when zero
  arena->hooks = hooks;
  arena->index_ = index;
  arena->decay[0] = options.dirty_decay_ms;
  arena->decay[1] = options.muzzy_decay_ms;
  arena->Begin();
  return arena;
}

void Arena::Begin() noexcept {
  started_ = Linux::NowMillis();
  pages_.Bind(map_, metadata_);
  central_.Bind(map_, metadata_, pages_);
  pages_.Init();
  central_.Init();
}

// The global map learns whose the memory is: rows without a class, whose slab is the arena.
void* Arena::MapRegion(size_t bytes, size_t alignment, void* hint) noexcept {
  const bool hooked = alignment >= kTrackerBytes;
  Locked hold(regions_lock_);
  if (regions_count_ == kMostRegions) return nullptr;
  void* const p = hooked ? AskHooks(bytes, alignment, hint) : Linux::Map(bytes, alignment, hint);
  if (p == nullptr) return nullptr;
  if (hooked) {
    Locked hold_map(heap.pages().mutex());
    if (page_map.Cover<Linux>(p, bytes)) {
      page_map.SetSlab(p, bytes, kNoClass, reinterpret_cast<Slab*>(this));
      regions_[regions_count_++] = {p, bytes, true};
      return p;
    }
  }
  if (hooked) {
    GiveToHooks(p, bytes);
    return nullptr;
  }
  regions_[regions_count_++] = {p, bytes, false};
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

void Arena::UnmapRegion(void* p, size_t bytes) noexcept {
  Locked hold(regions_lock_);
  size_t i = 0;
  while (i < regions_count_ && regions_[i].p != p) ++i;
  if (i == regions_count_) return;
  const bool hooked = regions_[i].hooked;
  regions_[i] = regions_[--regions_count_];
  if (!hooked) return Linux::Unmap(p, bytes);
  {
    Locked hold_map(heap.pages().mutex());
    page_map.SetSlab(p, bytes, kNoClass, nullptr);
  }
  GiveToHooks(p, bytes);
}

void Arena::Discard(bool again) noexcept {
  while (regions_count_ > 0) {
    const Region last = regions_[regions_count_ - 1];
    UnmapRegion(last.p, last.bytes);
  }
  Arena* const self = this;
  const size_t bytes = RoundUp(sizeof(Arena), 64 * kKiB);
  if (!again) return Linux::Unmap(self, bytes);
  ExtentHooks* const kept_hooks = hooks;
  const unsigned kept_index = index_;
  const int64_t kept_decay[2] = {decay[0], decay[1]};
  char kept_name[32];
  __builtin_memcpy(kept_name, name, sizeof name);
  Linux::Release(self, bytes);
  hooks = kept_hooks;
  index_ = kept_index;
  decay[0] = kept_decay[0];
  decay[1] = kept_decay[1];
  __builtin_memcpy(name, kept_name, sizeof name);
  Begin();
}

void* Arena::Allocate(size_t size, size_t alignment, bool zero) noexcept {
  const Serving me(this);
  const SizeClass c = alignment <= kGranule ? AlignedClassOf(size, alignment) : kNoClass;
  if (c == kNoClass) {
    if (size > kMaxRequest) return nullptr;
    const Memory memory =
        pages_.AllocateLarge(size, alignment < kTrackerBytes ? kTrackerBytes : alignment, size);
    if (memory.p != nullptr && zero && !memory.Zero()) __builtin_memset(memory.p, 0, size);
    return memory.p;
  }
  void* p = nullptr;
  if (central_.Fetch(c, &p, 1) == 0) return nullptr;
  made_[c].fetch_add(1, std::memory_order_relaxed);
  if (zero) __builtin_memset(p, 0, kClassSize[c]);
  return p;
}

void Arena::Free(void* p) noexcept {
  const Serving me(this);
  const SizeClass c = map_.ClassAt(p);
  if (c != kNoClass) {
    central_.Return(c, &p, 1);
  } else if (pages_.LargeSize(p) != 0) {
    pages_.FreeLarge(p);
  } else {
    Die(MisuseReport{Misuse::kUnaligned, "free", p, 0, 0});
  }
  ReleaseExcess();
}

// What lies dirty between the windows stays within a quarter of what is used.
void Arena::ReleaseExcess() noexcept {
  if (decay[0] < 0) return;
  const size_t dirty = pages_.dirty_bytes();
  const size_t quarter = pages_.used_bytes() / 4;
  const size_t bound = decay[0] == 0 ? 0 : quarter > 8 * kMiB ? quarter : 8 * kMiB;
  if (dirty > bound) pages_.Release(dirty - bound);
}

size_t Arena::UsableSize(const void* p) noexcept {
  const SizeClass c = map_.ClassAt(p);
  return c != kNoClass ? kClassSize[c] : pages_.LargeSize(p);
}

bool Arena::ResizeInPlace(void* p, size_t size) noexcept {
  const Serving me(this);
  return map_.ClassAt(p) == kNoClass && pages_.ResizeLarge(p, size);
}

void Arena::Purge(bool all) noexcept {
  const Serving me(this);
  if (!all) {
    pages_.PayDebt(~size_t{0} / 2);
    return;
  }
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    central_.ReleasePages(c, central_.SlabsToInspect(c), Central<Hooked>::Patience::kNone);
  }
  pages_.Release(~size_t{0} / 2);
}

void Arena::EndWindow() noexcept {
  if (decay[0] < 0) return;
  const Serving me(this);
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    central_.ReleasePages(c, central_.SlabsToInspect(c));
  }
  pages_.EndWindow();
  pages_.PayDebt(~size_t{0} / 2);
}

Occupancy Arena::OccupancyAt(const void* p) noexcept { return central_.OccupancyAt(p); }

void Arena::Read(ArenaFigures& to) noexcept {
  const auto of_class = [this](SizeClass c) {
    const CentralStats central = central_.Stats(c);
    ClassFigures f;
    f.size = kClassSize[c];
    f.allocations = made_[c].load(std::memory_order_relaxed);
    f.live = central.used_objects;
    f.slabs = central.slabs;
    f.partial_slabs = central.partial_slabs;
    f.clean_bytes = central.clean_bytes;
    return f;
  };
  PageFigures pages{pages_.Stats(), metadata_.used()};
  FillFigures(to, pages, of_class, [this](size_t group) { return pages_.CountsOf(group); });
  to.uptime = (Linux::NowMillis() - started_) * 1000000;
  to.dirty_decay_ms = static_cast<uint64_t>(decay[0]);
  to.muzzy_decay_ms = static_cast<uint64_t>(decay[1]);
}

}  // namespace granary::jemalloc
