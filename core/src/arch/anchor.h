// What the critical sections read without a call, laid out behind one address, so that a single
// register reaches all of it. It is valid from the start: until a thread is known to the front it
// uses the null cache, which is empty and full at once, and so finds its way to the slow path.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/units.h"
#include "sizes/size_classes.h"

namespace granary {

// The head of the kernel's struct rseq (linux/rseq.h): the part that restartable sequences need.
struct RestartArea {
  uint32_t cpu_id_start = 0;
  int32_t cpu_id = 0;
  uint64_t sequence = 0;  // rseq_cs: the only field we ever write in the kernel's own
  uint32_t flags = 0;
  uint32_t node_id = 0;
  int32_t concurrency_id = 0;  // mm_cid: dense, below the number of threads and of CPUs
  uint32_t padding = 0;
};
static_assert(sizeof(RestartArea) == 32 && offsetof(RestartArea, concurrency_id) == 24);

// Caches: first one a CPU (or concurrency id), then one a thread where there are no sequences.
// The kernel's indices start at -2, which stands for "not registered".
inline constexpr size_t kMaxThreadCaches = 256;
inline constexpr size_t kMaxCaches = kMaxCpus + kMaxThreadCaches;
inline constexpr size_t kUnregisteredIndices = 2;

// A cache begins with its headers, one for each list of slots: the cursor in the low 16 bits, above
// it the number of allocations, counting down. Further words hold the slots. List c takes what is
// freed of class c. Of a small class malloc may take from a list of its own, the ready one, and so
// need not wait for what the free before it wrote; of others it takes from where free puts it.
using CacheWords = uint64_t;
inline constexpr size_t kBlock = 16;  // pointers that change lists at a time
inline constexpr SizeClass kLastReady = kFineLookup.back();
inline constexpr size_t kReadyLists = 2 * kMaxClasses;
inline constexpr size_t kHeaders = kReadyLists + kLastReady + 1;

constexpr bool HasReady(SizeClass c) { return c != kNoClass && c <= kLastReady; }
constexpr uint64_t ReadyList(SizeClass c) { return kReadyLists + c; }

constexpr auto MakeFineLists(bool ready) {
  std::array<uint16_t, kFineLookup.size()> lists{};
  for (size_t row = 0; row < lists.size(); ++row) {
    const SizeClass c = kFineLookup[row];
    lists[row] = static_cast<uint16_t>(ready && HasReady(c) ? ReadyList(c) : c);
  }
  return lists;
}

struct Anchor {
  // The address of the index that chooses the cache, as if thread_area were zero. One line holds it
  // and the caches of the first CPUs, far from the end of its page: see core/apart.ld.
  alignas(512) int32_t* cache_index = nullptr;
  CacheWords* cache[kUnregisteredIndices + kMaxCaches] = {};
  RestartArea unregistered{.cpu_id = -1, .concurrency_id = -1};
  CacheWords null_cache[kHeaders] = {};
  bool ready_lists = true;
  std::array<uint16_t, kFineLookup.size()> fine_list = MakeFineLists(true);
  std::remove_const_t<decltype(kCoarseLookup)> coarse_class = kCoarseLookup;
  std::remove_const_t<decltype(kMediumLookup)> medium_class = kMediumLookup;
};

extern Anchor anchor __attribute__((visibility("hidden")));

// Whether malloc uses the ready lists. To be called before there are caches.
void UseReadyLists(bool use) noexcept;
inline bool UsesReady(SizeClass c) { return HasReady(c) && anchor.ready_lists; }
// The list that malloc takes objects of class c from.
inline uint64_t PopList(SizeClass c) { return UsesReady(c) ? ReadyList(c) : c; }

// This thread's RestartArea, relative to anchor.unregistered; 0 until the front knows the thread.
extern __thread uintptr_t thread_area
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

// The index of the calling thread's cache at this moment; negative if it has none.
inline int CurrentIndex() noexcept {
  const uintptr_t at = reinterpret_cast<uintptr_t>(anchor.cache_index) + thread_area;
  return *reinterpret_cast<volatile int32_t*>(at);
}

}  // namespace granary
