// The anchor: all data that the critical sections read without a call, behind one address, so that
// one register reaches all of it. It is valid from the start: a thread that is not registered yet
// uses the null cache, which is both empty and full, so each of its calls takes the slow path.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/units.h"
#include "sizes/size_classes.h"

namespace granary {

// The first 32 bytes of the kernel's struct rseq (linux/rseq.h).
struct RestartArea {
  uint32_t cpu_id_start = 0;
  int32_t cpu_id = 0;
  uint64_t sequence = 0;  // rseq_cs: the only field that Granary writes in the kernel's area
  uint32_t flags = 0;
  uint32_t node_id = 0;
  int32_t concurrency_id = 0;  // mm_cid: below the number of threads and of CPUs
  uint32_t padding = 0;
};
static_assert(sizeof(RestartArea) == 32 && offsetof(RestartArea, concurrency_id) == 24);

// The cache table has one row for each CPU or concurrency id or, where the process has no
// restartable sequences, for each thread cache. The kernel's indices start at -2, which means "not
// registered".
inline constexpr size_t kMaxThreadCaches = 1280;
inline constexpr size_t kMaxCaches = kMaxThreadCaches;
static_assert(kMaxCaches >= kMaxCpus);
inline constexpr size_t kUnregisteredIndices = 2;

// A cache begins with one header for each list of slots: the low 16 bits are the cursor, the bits
// above them count down allocations. The slots follow. Free pushes objects of class c to list c,
// and malloc pops from it. A class of up to kLastReady may get a ready list: then malloc pops from
// that, so that it does not wait for the stores of the free before it.
using CacheWords = uint64_t;
inline constexpr size_t kGroup = 16;  // pointers that move between two lists in one step
inline constexpr SizeClass kLastReady = kFineLookup.back();
inline constexpr size_t kReadyLists = 2 * kMaxClasses;
inline constexpr size_t kHeaders = kReadyLists + kLastReady + 1;

constexpr bool HasReady(SizeClass c) { return c != kNoClass && c <= kLastReady; }
constexpr uint64_t ReadyList(SizeClass c) { return kReadyLists + c; }

// Which classes use their ready list. kOnTrial: all at first, then those that gain
// (front/ready_trials.h).
enum class ReadyLists : uint8_t { kNever, kAlways, kOnTrial };

// Row 0, of malloc(0), has list 0, which is always empty: such a call takes the slow path.
constexpr auto MakeFineLists() {
  std::array<uint16_t, kFineLookup.size()> lists{};
  for (size_t row = 1; row < lists.size(); ++row) lists[row] = kFineLookup[row];
  return lists;
}

// The bits of an address that are zero in every object of a class.
constexpr auto MakeZeroBits() {
  std::array<uint64_t, kMaxClasses> bits{};
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    const uint64_t size = kClassSize[c] | kGranule;  // slabs begin at a granule
    bits[c] = ((size & -size) - 1) | ~uint64_t{0} << kAddressBits;
  }
  return bits;
}

struct Anchor {
  // The address of the index of the cache, for a thread_area of zero. It shares a cache line with
  // the caches of the first CPUs, far from the end of its page; core/apart.ld says why.
  alignas(512) int32_t* cache_index = nullptr;
  CacheWords* cache[kUnregisteredIndices + kMaxCaches] = {};
  RestartArea unregistered{.cpu_id = -1, .concurrency_id = -1};
  CacheWords null_cache[kHeaders] = {};
  std::array<uint64_t, kMaxClasses> zero_bits = MakeZeroBits();
  std::array<uint16_t, kFineLookup.size()> fine_list = MakeFineLists();
  std::remove_const_t<decltype(kCoarseLookup)> coarse_class = kCoarseLookup;
  std::remove_const_t<decltype(kMediumLookup)> medium_class = kMediumLookup;
  ReadyLists ready_lists = ReadyLists::kNever;
  bool uses_ready[kLastReady + 1] = {};
};

extern Anchor anchor __attribute__((visibility("hidden")));

// Sets which classes use their ready list. Call it when the front is complete, and only once.
void SetReadyLists(ReadyLists which) noexcept;
// Sets whether malloc pops objects of class c, which HasReady, from the ready list. Any thread may
// call it at any time: both lists stay usable. Has no effect after TakeSlowPaths.
void UseReady(SizeClass c, bool use) noexcept;
// Lets the fast path serve malloc(0) too. Call it before the first cache exists.
void CacheEmpty() noexcept;
// Makes every malloc and free take the slow path from now on, at no cost to the fast path. The
// lists themselves stay. Call it before the first cache exists.
void TakeSlowPaths() noexcept;
inline bool UsesReady(SizeClass c) {
  return HasReady(c) && __atomic_load_n(&anchor.uses_ready[c], __ATOMIC_ACQUIRE);
}
// The list that malloc pops objects of class c from.
inline uint64_t PopList(SizeClass c) { return UsesReady(c) ? ReadyList(c) : c; }

// The address of this thread's RestartArea minus that of anchor.unregistered; 0 until the thread is
// registered.
extern __thread uintptr_t thread_area
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

// The index of the cache that the calling thread uses at this moment; negative if it has none.
inline int CurrentIndex() noexcept {
  const uintptr_t at = reinterpret_cast<uintptr_t>(anchor.cache_index) + thread_area;
  return *reinterpret_cast<volatile int32_t*>(at);
}

}  // namespace granary
