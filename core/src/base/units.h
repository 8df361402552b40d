// The units of memory.
//
//   OS page   the unit that the kernel maps and purges; its size is known at run time
//   granule   the unit of the page map and of the page heap
//   region    2 MiB of address space, aligned: the size of a huge page; a tracker describes it
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary {

inline constexpr size_t kKiB = size_t{1} << 10;
inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kGiB = size_t{1} << 30;
inline constexpr size_t kTiB = size_t{1} << 40;

#if defined(__aarch64__)
inline constexpr unsigned kGranuleShift = 16;  // arm64 kernels have pages of up to 64 KiB
inline constexpr unsigned kAddressBits = 48;
#else
inline constexpr unsigned kGranuleShift = 14;
inline constexpr unsigned kAddressBits = 47;
#endif
inline constexpr size_t kGranule = size_t{1} << kGranuleShift;
inline constexpr size_t kMinOsPage = 4 * kKiB;

inline constexpr unsigned kTrackerShift = 21;
inline constexpr size_t kTrackerBytes = size_t{1} << kTrackerShift;
inline constexpr size_t kGranulesPerTracker = kTrackerBytes >> kGranuleShift;

inline constexpr size_t kMaxCpus = 1024;  // on machines with more CPUs, caches belong to threads
inline constexpr size_t kCacheLine = 64;
// the limit of C: differences of pointers fit in ptrdiff_t
inline constexpr size_t kMaxRequest = PTRDIFF_MAX;
// The largest block: a request of one byte more has no size. A whole number of pages, of any page
// size.
inline constexpr size_t kMaxBlock = kMaxRequest + 1 - 2 * kTrackerBytes;

inline uintptr_t AddressOf(const void* p) { return reinterpret_cast<uintptr_t>(p); }
inline bool IsUserAddress(const void* p) { return AddressOf(p) >> kAddressBits == 0; }

}  // namespace granary
