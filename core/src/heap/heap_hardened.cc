// malloc and free with option hardened. The fast paths find nothing (TakeSlowPaths in
// arch/anchor.h), so every call comes here. The caches work as always; objects wait in quarantine
// before they return to them.

#include <algorithm>
#include <bit>

#include "arena/arenas.h"
#include "arena/stash.h"
#include "hardened/guarded_blocks.h"
#include "hardened/quarantine.h"
#include "hardened/random.h"
#include "heap/hardened_fast.h"
#include "heap/heap.h"
#include "heap/internal.h"
#include "profiler/profiler.h"
#include "upkeep/upkeep.h"

namespace granary::heap::hardened {
namespace {

using granary::hardened::GuardedBlocks;
using granary::hardened::IsZero;
using granary::hardened::MakePagesZero;
using granary::hardened::Quarantine;
using granary::hardened::Random;

constinit GuardedBlocks<Linux> blocks;

// Where freed objects wait: on the shelf of their CPU, and otherwise in a quarantine that CPUs
// share: larger classes, and all of them where there are no restartable sequences. Threads without
// these divide the slots of small classes, as each exchange waits for the last thread's.
constexpr size_t kWaitingBytes = 64 * kKiB;  // of each class, shared
constexpr size_t kMostSlots = 256;
constexpr size_t kMostParts = 4;
constinit Quarantine shared[kMostParts][kNumSmall];
constinit size_t part_count = 1;  // a power of two

size_t PartsOf(SizeClass c) { return CpuShelves::Has(c) ? part_count : 1; }

constexpr size_t SlotsOf(SizeClass c) {
  const size_t fit = std::bit_floor(kWaitingBytes / kClassSize[c]);
  return fit > kMostSlots ? kMostSlots : fit < 2 ? 2 : fit;
}

template <class Visit>
void ForEachShared(Visit&& visit) {
  for (SizeClass c = 1; c < kNumSmall; ++c) {
    for (size_t i = 0; i < PartsOf(c); ++i) visit(c, shared[i][c]);
  }
}

// False if the system refuses. A shelf that another thread on this CPU has added meanwhile is used,
// and this one is lost.
GRANARY_COLD bool AddShelf(size_t index) {
  void* const memory = layers.metadata().Allocate(sizeof(CpuShelves::Shelf));
  if (memory != nullptr) cpu_shelves.Add(index, static_cast<CpuShelves::Shelf*>(memory));
  return memory != nullptr;
}

bool ExchangeOnShelf(SizeClass c, void* p, void** out) {
  const int index = CurrentIndex();
  if (!CpuShelves::Has(c) || index < 0 || threads.owner() != CacheOwner::kCpu) return false;
  const auto of_cpu = static_cast<size_t>(index);
  if (!cpu_shelves.HasShelf(of_cpu) && !AddShelf(of_cpu)) return false;
  return cpu_shelves.Exchange(of_cpu, c, p, out);
}

[[noreturn]] GRANARY_COLD void DieOfSeal(SizeClass c, const void* p, const char* verb) {
  const Misuse what = Seals::IsOpen(static_cast<const char*>(p), kClassSize[c])
                          ? Misuse::kDoubleFree
                          : Misuse::kWrittenBeyond;
  Die(MisuseReport{what, verb, p, kClassSize[c], 0});
}

// Aborts if p, an address of class c, is not an object in use with its seal whole; returns its
// size.
size_t RequireSealed(SizeClass c, const void* p, const char* verb) {
  const char* const object = static_cast<const char*>(p);
  if (!MayReadSeal(c, p) || !seals.IsWhole(object, kClassSize[c])) {
    RequireLive(c, p, verb);
    if (!seals.IsWhole(object, kClassSize[c])) DieOfSeal(c, p, verb);
  }
  return Seals::SizeOf(object, kClassSize[c]);
}

// The word before p is the seal of the object before it, or zero.
void CheckBefore(SizeClass c, char* p) {
  if (page_map.SlabAt(p)->base == p) return;  // what precedes the slab is no object of it
  const size_t room = kClassSize[c];
  // Unless another thread sealed, resized or freed that object between two reads.
  for (int i = 0; i < 2; ++i) {
    if (Seals::IsOpen(p - room, room) || seals.IsWhole(p - room, room)) return;
  }
  const size_t size = Seals::SizeOf(p, room);
  Die(MisuseReport{Misuse::kWrittenBefore, "free", p, size, 0});
}

void RequireZero(SizeClass c, const char* p, const char* verb) {
  if (!IsZero(p, kClassSize[c])) DieOfWrite(c, p, verb);
}

void* AllocateObject(SizeClass c, size_t size) {
  void* p = TakeCached(c, size);  // hardened heaps have no ready lists
  if (p == nullptr) p = AllocateClass(c, size);
  return p != nullptr ? Finish(c, p, size) : nullptr;
}

// Frees the object in use at p, whose seal is whole.
void FreeObject(SizeClass c, char* p) {
  if (!Seals::MarginIsWhole(p, kClassSize[c])) DieOfSeal(c, p, "free");
  CheckBefore(c, p);
  MakePagesZero(p, kClassSize[c]);
  if (page_map.ClassAt(p) == kSampledClass && !profiler::Unsample(p)) return;
  Store(c, p);
}

// From this size on, a block that realloc returns has address space to grow into.
constexpr size_t kGrowsInPlaceFrom = 256 * kKiB;

template <class Make>
void* NewBlock(size_t size, Make&& make) {
  upkeep.PollInMalloc();
  void* const p = make();
  if (p == nullptr) return Refused(size);
  upkeep.MakeRoom(0);
  upkeep.NoteUsed(layers.pages().used_bytes());
  if (layers.front().sampling().on() && layers.front().sampling().Chosen(size)) [[unlikely]]
    profiler::Sample(p, kNoClass, size, size);
  return p;
}

void* AllocateBlock(size_t size, size_t alignment) {
  return NewBlock(size, [&] { return blocks.Allocate(size == 0 ? 1 : size, alignment); });
}

void FreeBlock(void* p) {
  if (layers.profile().Collects() && !profiler::Unsample(p)) [[unlikely]]
    return;
  blocks.Free(p);
}

// The class of the memory for an object of `size` bytes and its seal; kNoClass for a block.
SizeClass RoomFor(size_t size, size_t alignment) {
  if (size > kMaxSmall || alignment > kGranule) return kNoClass;
  const SizeClass c = AlignedClassOf(size + kSealBytes, alignment);
  return c != kNoClass && IsSmall(c) ? c : kNoClass;
}

}  // namespace

constinit bool active = false;
constinit CpuShelves cpu_shelves;
constinit size_t readable = 0;

void Init() noexcept {
  const uint64_t secret = Linux::Secret();
  seals = Seals(secret, (secret << 32 | secret >> 32) * 0x9e3779b97f4a7c15u);
  readable = kGranule - layers.pages().OsPage();
  stashed.fill(0);
  Random::Seed(secret + 1);
  blocks.Bind(layers.pages());
  if (threads.owner() == CacheOwner::kThread)
    part_count = std::bit_floor(std::clamp(size_t{Linux::CpuCount()}, size_t{1}, kMostParts));
  ForEachShared([](SizeClass c, Quarantine& quarantine) {
    const size_t count = SlotsOf(c) / PartsOf(c);
    auto* const slots = static_cast<std::atomic<void*>*>(
        layers.metadata().Allocate(count * sizeof(std::atomic<void*>)));
    if (slots == nullptr) granary::Die("out of memory for the quarantine of hardened:true");
    quarantine.Bind(slots, count);
  });
  active = true;
}

void Store(SizeClass c, void* p) noexcept {
  void* out;
  if (!ExchangeOnShelf(c, p, &out)) {
    const size_t part = static_cast<size_t>(CurrentIndex()) & (PartsOf(c) - 1);
    out = shared[part][c].Exchange(p);
  }
  if (out != nullptr && !arch::Push(c, out)) FreeOverflow(c, out);
}

void FreeOverflow(SizeClass c, void* p) noexcept {
  upkeep.Poll();
  layers.front().Free(c, p);
}

void* FinishSampled(SizeClass c, void* p, size_t size) noexcept {
  return Finish(c, SampleDue(p, size), size);
}

void DieOfWrite(SizeClass c, const void* p, const char* verb) noexcept {
  Die(MisuseReport{Misuse::kWrittenFree, verb, p, kClassSize[c], 0});
}

void* Allocate(size_t size, size_t alignment) noexcept {
  if (size == 0 && alignment <= empty_objects.kStep) {
    if (void* const p = empty_objects.Allocate(); p != nullptr) return p;
  }
  const SizeClass c = RoomFor(size, alignment);
  return c != kNoClass ? AllocateObject(c, size) : AllocateBlock(size, alignment);
}

void Free(void* p) noexcept {
  const SizeClass c = ObjectClassAt(page_map, p);
  if (c != kNoClass) {
    RequireSealed(c, p, "free");
    return FreeObject(c, static_cast<char*>(p));
  }
  if (blocks.SizeOf(p, "free") != 0) return FreeBlock(p);
  FreeOfArena(p);
}

size_t UsableSize(const void* p, const char* verb) noexcept {
  const SizeClass c = ObjectClassAt(page_map, p);
  if (c != kNoClass) return RequireSealed(c, p, verb);
  if (empty_objects.Holds(p)) return RequireEmpty(p, verb);
  size_t size = blocks.SizeOf(p, verb);
  if (size != 0) return size;
  if (Arena* const arena = OwnerOf(p); arena != nullptr) size = arena->UsableSize(p);
  if (size == 0) DieOf(p, verb);
  return size;
}

size_t ResizeInPlace(void* p, size_t size) noexcept {
  const size_t before = UsableSize(p, "xallocx");
  const SizeClass c = ObjectClassAt(page_map, p);
  if (c == kNoClass) return size > kMaxSmall && blocks.Resize(p, size) ? size : before;
  if (RoomFor(size, 1) != c) return before;
  seals.Close(static_cast<char*>(p), size, kClassSize[c]);
  return size;
}

static void* MoveToNew(void* p, size_t before, size_t size) {
  void* const q = size >= kGrowsInPlaceFrom
                      ? NewBlock(size, [size] { return blocks.AllocateToGrow(size); })
                      : AllocateOr(size, [size] { return Allocate(size, 1); });
  if (q == nullptr) return nullptr;
  __builtin_memcpy(q, p, before < size ? before : size);
  FreeOr(p, [p] { Free(p); });
  return q;
}

static void* ReallocateObject(SizeClass c, void* p, size_t size) {
  const size_t before = RequireSealed(c, p, "realloc");
  if (size == 0 || RoomFor(size, 1) != c) return MoveToNew(p, before, size);
  seals.Close(static_cast<char*>(p), size, kClassSize[c]);
  return p;
}

void* Reallocate(void* p, size_t size) noexcept {
  if (const SizeClass c = ObjectClassAt(page_map, p); c != kNoClass)
    return ReallocateObject(c, p, size);
  const size_t before = UsableSize(p, "realloc");
  if (Arena* const arena = OwnerOf(p); arena != nullptr) {
    void* const moved = arena->Reallocate(p, size);
    return moved != nullptr ? moved : Refused(size);
  }
  if (size != 0 && ResizeInPlace(p, size) == size) return p;
  return MoveToNew(p, before, size);
}

// While the caches are stopped, no thread exchanges objects on a shelf.
static void FlushShelves() {
  Linux::PrepareToAbort();
  const Upkeep::Exclusive alone(upkeep);
  if (layers.front().StopAll()) {
    cpu_shelves.ForEachSlot([](SizeClass c, uint64_t& slot) {
      void* p = reinterpret_cast<void*>(slot);
      slot = 0;
      if (p == nullptr) return;
      RequireZero(c, static_cast<char*>(p), "exit");
      layers.depot().Return(c, &p, 1);
    });
  }
  layers.front().ResumeAll();
}

void FlushQuarantine() noexcept {
  ForEachShared([](SizeClass c, Quarantine& quarantine) {
    quarantine.TakeAll([c](void* p) {
      RequireZero(c, static_cast<char*>(p), "exit");
      layers.front().Free(c, p);
    });
  });
  FlushShelves();
}

void ClearQuarantine() noexcept {
  const auto clear = [](SizeClass c, void* p) {
    MakePagesZero(static_cast<char*>(p), kClassSize[c]);
  };
  ForEachShared([&](SizeClass c, Quarantine& quarantine) {
    quarantine.ForEach([&](void* p) { clear(c, p); });
  });
  cpu_shelves.ForEachSlot([&](SizeClass c, uint64_t& slot) {
    if (slot != 0) clear(c, reinterpret_cast<void*>(slot));
  });
}

}  // namespace granary::heap::hardened
