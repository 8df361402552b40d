#include "heap/heap.h"

#include <errno.h>

#include "arch/processor.h"
#include "arch/rseq.h"
#include "arena/arena.h"
#include "base/writer.h"
#include "front/thread_settings.h"
#include "heap/process.h"
#include "heap/settings.h"
#include "reflect/note.h"

namespace granary {

constinit PageMap page_map{};
// A page of its own first, so that how many pages a small process touches is no matter of chance.
alignas(kMinOsPage) constinit Heap heap;

namespace {

SizeClass LargestCached() {
  if (!options.Caches() || options.cache_max < kClassSize[1]) return kNoClass;
  SizeClass c = kNumClasses - 1;
  while (kClassSize[c] > static_cast<size_t>(options.cache_max)) --c;
  return c;
}

bool WantsReadyLists() {
  return options.ready_lists == 0 ? !arch::ForwardsStoresAtOnce() : options.ready_lists == 1;
}

bool IsOversize(size_t bytes) {
  return options.oversize_threshold > 0 && bytes >= static_cast<size_t>(options.oversize_threshold);
}

// What one cache may hold, so that all of them hold no more than they should.
size_t CacheBudget() {
  const auto bytes = static_cast<size_t>(options.cache_bytes);
  const auto count = static_cast<size_t>(options.cache_count);
  const size_t cpus = count == 0 ? 0 : Linux::CpuCount();
  return count < cpus ? bytes / cpus * count : bytes;
}

}  // namespace

void Heap::ApplyOptions() noexcept {
  front_.SetBudget(CacheBudget());
  metadata_.SetHuge(static_cast<Metadata<Linux>::Huge>(options.metadata_thp));
  pages_.SetHuge(static_cast<PageHeap<Linux>::Huge>(options.huge_pages));
  // A process that starts does not pay for files that it may never need.
  const bool ready = ready_.load(std::memory_order_relaxed);
  if (ready || options.soft_limit > 0 || options.hard_limit > 0) upkeep_.ApplyLimits();
}

void Heap::Init() noexcept {
  {
    Locked hold(init_);
    if (ready_.load(std::memory_order_relaxed)) return;
    LoadSettings();
    UseReadyLists(WantsReadyLists());
    pages_.Bind(page_map, metadata_);
    central_.Bind(page_map, metadata_, pages_);
    depot_.Bind(metadata_, central_);
    front_.Bind(metadata_, depot_);
    pages_.Init();
    central_.Init();
    front_.Init();
    front_.SetLargestCached(LargestCached());
    ApplyOptions();
    ready_.store(true, std::memory_order_release);
  }
  OnFirstUse();
}

void* Heap::AllocateClass(SizeClass c, size_t requested) noexcept {
  if (front_.RefillReady(c)) {
    if (void* const p = TakeCached(PopList(c), requested); p != nullptr) return p;
  }
  upkeep_.PollInMalloc();
  bool due = false;
  void* const p = front_.Allocate(c, &due);
  peaks_.Note(pages_.used_bytes());
  if (due && p != nullptr) [[unlikely]]
    Sample(p, c, kClassSize[c], requested);
  return p != nullptr ? Filled(p, kClassSize[c]) : Refused(kClassSize[c]);
}

// The countdown is this CPU's first, so that nothing else passes it meanwhile.
void* Heap::SampleDue(void* p, size_t requested) noexcept {
  const SizeClass c = ObjectClassAt(page_map, p);
  front_.Rearm(c);
  if (!front_.sampling().on()) {
    upkeep_.PollInMalloc();
    return p;
  }
  Sample(p, c, kClassSize[c], requested);
  return p;
}

// What options ask for that are rare; those that concern every object turn the caches off.
void* Heap::Filled(void* p, size_t size) noexcept {
  if (!options.Fills()) return p;
  if (options.zero || (options.junk & 1) != 0) __builtin_memset(p, options.zero ? 0 : 0xa5, size);
  return p;
}

void* Heap::Refused(size_t size) noexcept {
  errno = ENOMEM;
  if (!options.abort_on_oom) return nullptr;
  char sentence[160];
  Writer w(sentence, sizeof sentence - 1);
  w.Text("out of memory: ").Number(size).Text(" bytes were refused and abort_on_oom is set");
  sentence[w.size()] = 0;
  Die(sentence);
}

void* Heap::AllocateLarge(size_t size, size_t alignment, size_t reserve, bool zero) noexcept {
  upkeep_.PollInMalloc();
  upkeep_.MakeRoom(size);
  const Memory memory =
      size > kMaxRequest ? Memory{} : pages_.AllocateLarge(size, alignment, reserve);
  if (memory.p == nullptr) return Refused(size);
  peaks_.Note(pages_.used_bytes());
  if (memory.Zero()) {
    upkeep_.AfterFreshLarge(size);
  } else if (zero && !memory.Zero()) {
    __builtin_memset(memory.p, 0, size);
  }
  if (front_.sampling().on()) [[unlikely]] {
    const size_t bytes = RoundUp(size, pages_.OsPage());
    if (front_.sampling().Chosen(bytes)) Sample(memory.p, kNoClass, bytes, size);
  }
  return zero ? memory.p : Filled(memory.p, RoundUp(size, pages_.OsPage()));
}

void* Heap::Allocate(size_t size) noexcept {
  const SizeClass small = size <= kFineLimit ? ClassOf(size) : kNoClass;
  if (front_.MoveBlock(small)) {
    if (void* const p = TakeCached(ReadyList(small), size); p != nullptr) return p;
  }
  EnsureInit();
  if (HasThreadSettings()) return AllocateSpecial(size, 1, false);
  const SizeClass c = ClassOf(size);
  return c != kNoClass ? AllocateClass(c, size) : AllocateLarge(size, kTrackerBytes, size, false);
}

void* Heap::AllocateZeroed(size_t size) noexcept {
  EnsureInit();
  if (HasThreadSettings()) return AllocateSpecial(size, 1, true);
  const SizeClass c = ClassOf(size);
  if (c == kNoClass) return AllocateLarge(size, kTrackerBytes, size, true);
  void* p = TakeCached(PopList(c), size);
  if (p == nullptr && !IsSmall(c)) {
    upkeep_.Poll();
    p = central_.FetchZeroed(c);
    if (p == nullptr) return Refused(size);
    front_.CountUncached(c);
    if (front_.sampling().Chosen(kClassSize[c])) [[unlikely]]
      Sample(p, c, kClassSize[c], size);
    peaks_.Note(pages_.used_bytes());
    return p;
  }
  if (p == nullptr) p = AllocateClass(c, size);
  if (p != nullptr) __builtin_memset(p, 0, size);
  return p;
}

void* Heap::AllocateAligned(size_t size, size_t alignment) noexcept {
  EnsureInit();
  if (HasThreadSettings()) return AllocateSpecial(size, alignment, false);
  if (alignment <= kGranule) {
    const SizeClass c = AlignedClassOf(size, alignment);
    if (c != kNoClass) {
      void* const p = TakeCached(PopList(c), size);
      return p != nullptr ? p : AllocateClass(c, size);
    }
  }
  return AllocateLarge(size, alignment, size, false);
}

void Heap::Free(void* p) noexcept {
  if (p == nullptr) return;
  EnsureInit();
  if (HasThreadSettings()) return FreeSpecial(p);
  SizeClass c = page_map.ClassAt(p);
  if (c == kSampledClass) {
    if (!Unsample(p)) return;
    c = ObjectClassAt(page_map, p);
    if ((options.junk & 2) == 0 && arch::Push(c, p)) return;
  }
  if (c != kNoClass) {
    upkeep_.Poll();
    if ((options.junk & 2) != 0) JunkFreed(c, p);
    return front_.Free(c, p);
  }
  const size_t large = pages_.LargeSize(p);
  if (large == 0) return FreeOfArena(p);
  if (profile_.Collects() && !Unsample(p)) [[unlikely]]
    return;
  pages_.FreeLarge(p, IsOversize(large));
  upkeep_.AfterLargeFree(large);
}

// Memory that no layer of ours knows is an arena's, or nobody's.
void Heap::FreeOfArena(void* p) noexcept {
  Arena* const arena = OwnerOf(p);
  if (arena == nullptr) DieOf(p, "free");
  arena->Free(p);
}

// Only what is in use: the bytes of a block freed twice may be another's by now.
void Heap::JunkFreed(SizeClass c, void* p) noexcept {
  if (central_.IsUsed(c, p)) __builtin_memset(p, 0x5a, kClassSize[c]);
}

void Heap::FreeSized(void* p, size_t size, size_t alignment) noexcept {
  if (p == nullptr) return;
  const size_t usable = UsableSize(p, "sized free");
  if (GoodSize(size, alignment) != usable)
    Die(MisuseReport{Misuse::kWrongSize, "sized free", p, usable, size});
  if (!arch::Push(page_map.ClassAt(p), p)) Free(p);
}

void Heap::DieOf(const void* p, const char* verb) noexcept {
  using Place = PageHeap<Linux>::Place;
  switch (pages_.PlaceOf(p)) {
    case Place::kOutside:
      Die(MisuseReport{Misuse::kForeign, verb, p, 0, 0});
    case Place::kInside:
      Die(MisuseReport{Misuse::kUnaligned, verb, p, 0, 0});
    case Place::kFree:
      Die(MisuseReport{Misuse::kDoubleFree, verb, p, 0, 0});
  }
  __builtin_unreachable();
}

size_t Heap::UsableSize(const void* p, const char* verb) noexcept {
  EnsureInit();
  const SizeClass c = ObjectClassAt(page_map, p);
  if (c != kNoClass) return kClassSize[c];
  size_t large = pages_.LargeSize(p);
  if (large != 0) return large;
  if (Arena* const arena = OwnerOf(p)) large = arena->UsableSize(p);
  if (large == 0) DieOf(p, verb);
  return large;
}

size_t Heap::GoodSize(size_t size, size_t alignment) noexcept {
  EnsureInit();
  const SizeClass c = alignment <= kGranule ? AlignedClassOf(size, alignment) : kNoClass;
  if (c != kNoClass) return kClassSize[c];
  return size > kMaxRequest - kTrackerBytes ? 0 : RoundUp(size == 0 ? 1 : size, pages_.OsPage());
}

// For a request that no block can meet, a size that is refused in the ordinary way.
static size_t GoodSizeOrMost(size_t size) {
  const size_t good = heap.GoodSize(size, 1);
  return good != 0 ? good : kMaxRequest + 1;
}

// A block that grows again and again is worth address space of its own: from here on its pages stay
// in place or move by the page table.
static constexpr size_t kGrowsInPlaceFrom = 256 * kKiB;

void* Heap::Reallocate(void* p, size_t size) noexcept {
  EnsureInit();
  if (HasThreadSettings()) return ReallocateSpecial(p, size);
  const SizeClass c = ObjectClassAt(page_map, p);
  const size_t old_size = UsableSize(p, "realloc");
  if (c == kNoClass) {
    if (Arena* const arena = OwnerOf(p)) return MoveInArena(*arena, p, size);
    return ReallocateLarge(p, old_size, size);
  }
  if (ClassOf(size) == c) {
    if (page_map.ClassAt(p) == kSampledClass && profile_.MayRecord()) profile_.Resized(p, size);
    return p;
  }
  if (size > old_size && size >= kGrowsInPlaceFrom) {
    const size_t good = GoodSizeOrMost(size);
    const size_t reserve = good * 2 > 4 * kMiB ? good * 2 : 4 * kMiB;
    void* const q = AllocateLarge(good, kTrackerBytes, reserve, false);
    if (q == nullptr) return nullptr;
    __builtin_memcpy(q, p, old_size);
    Free(p);
    return q;
  }
  return MoveToNew(p, old_size, size);
}

void* Heap::MoveToNew(void* p, size_t old_size, size_t size) noexcept {
  const SizeClass c = ClassOf(size);
  void* q = nullptr;
  if (c != kNoClass) q = TakeCached(PopList(c), size);
  if (q == nullptr) q = Allocate(size);
  if (q == nullptr) return nullptr;
  __builtin_memcpy(q, p, size < old_size ? size : old_size);
  if (!arch::Push(page_map.ClassAt(p), p)) Free(p);
  return q;
}

void* Heap::ReallocateLarge(void* p, size_t old_size, size_t size) noexcept {
  if (size < kGrowsInPlaceFrom) return MoveToNew(p, old_size, size);
  const size_t good = GoodSizeOrMost(size);
  if (good == old_size || pages_.ResizeLarge(p, good)) {
    if (profile_.Collects() && good != old_size) [[unlikely]]
      ResampleLarge(p, good);
    peaks_.Note(pages_.used_bytes());
    return p;
  }
  void* const q = AllocateLarge(good, kTrackerBytes, good * 2, false);
  if (q == nullptr) return nullptr;
  const size_t moved = pages_.MoveLarge(p, q);
  const size_t common = good < old_size ? good : old_size;
  if (moved < common) {
    __builtin_memcpy(static_cast<char*>(q) + moved, static_cast<char*>(p) + moved, common - moved);
  }
  if (profile_.Collects() && !Unsample(p)) [[unlikely]]
    return q;
  pages_.FreeLarge(p, IsOversize(old_size));
  return q;
}

size_t Heap::Trim() noexcept {
  EnsureInit();
  Upkeep::Exclusive alone(upkeep_);
  const size_t before = pages_.Stats().released + central_.released_bytes();
  front_.Flush();
  alone.Yield();
  depot_.DrainAll();
  alone.Yield();
  // Pages of a slab go when it is inspected for the second time.
  for (int i = 0; i < 2; ++i) upkeep_.ReleaseSlabs(Central<Linux>::Patience::kTwoLooks);
  pages_.CountFilled();
  upkeep_.ReleaseSpans(~size_t{0});
  if (!options.retain) pages_.UnmapFree();
  pages_.ReleaseMap();
  metadata_.ReleaseFree(0);
  return pages_.Stats().released + central_.released_bytes() - before;
}

void Heap::FlushCaches() noexcept {
  EnsureInit();
  const Upkeep::Exclusive alone(upkeep_);
  front_.Flush();
  depot_.DrainAll();
}

void Heap::Verify() noexcept {
  central_.Verify();
  pages_.Verify();
}

// In the order they are taken by a call that goes all the way down.
template <class Visit>
void Heap::ForEachMutex(Visit&& visit) noexcept {
  depot_.ForEachMutex(visit);
  for (SizeClass c = 1; c < kNumClasses; ++c) visit(central_.mutex(c));
  visit(pages_.mutex());
  visit(metadata_.mutex());
  visit(profile_.mutex());
}

void Heap::PrepareFork() noexcept {
  upkeep_.PrepareFork();
  front_.StopAll();
  LockArenas();
  depot_.opening().Lock();
  ForEachMutex([](Mutex<Linux>& m) { m.Lock(); });
}

void Heap::AfterFork(bool child) noexcept {
  if (child) {
    ForEachMutex([](Mutex<Linux>& m) { m.Reset(); });
    depot_.opening().Reset();
    front_.ResetLocks();
    central_.ForgetHidden();
    pages_.ForgetBusy();
    const bool special = HasThreadSettings();
    if (special) thread_area = thread_settings.area;  // by which the front knows the thread
    threads.ForgetOthers([](size_t index) { heap.front_.Forget(index, false); });
    if (special) thread_area = SpecialArea();
  } else {
    ForEachMutex([](Mutex<Linux>& m) { m.Unlock(); });
    depot_.opening().Unlock();
  }
  UnlockArenas(child);
  front_.ResumeAll();
  upkeep_.AfterFork(child);
  if (child) locks_held = 0;
}

}  // namespace granary
