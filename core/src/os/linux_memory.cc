// The memory of the process: what core/simulate replaces.
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/bits.h"
#include "base/units.h"
#include "os/advice.h"
#include "os/backing_file.h"
#include "os/keep_aligned.h"
#include "os/linux.h"
#include "os/region_hooks.h"
#include "os/system_call.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace granary {

namespace {

long Advise(void* p, size_t bytes, int advice) {
  return Call(call::madvise, Bits(p), static_cast<long>(bytes), advice);
}

constexpr int kMapFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

void* MapAt(size_t bytes, void* hint, int access) {
  const long p = Call(call::mmap, Bits(hint), static_cast<long>(bytes), access, kMapFlags, -1, 0);
  return Failed(p) ? nullptr : reinterpret_cast<void*>(p);
}

void* MapAligned(size_t bytes, size_t alignment, void* hint, int access) {
  void* p = MapAt(bytes, hint, access);
  if (p == nullptr || IsAligned(AddressOf(p), alignment)) return p;
  Linux::Unmap(p, bytes);
  p = MapAt(bytes + alignment, nullptr, access);
  return p == nullptr ? nullptr : KeepAligned(p, bytes, alignment, Linux::Unmap);
}

}  // namespace

void* Linux::Map(size_t bytes, size_t alignment, void* hint) noexcept {
  return MapAligned(bytes, alignment, hint, PROT_READ | PROT_WRITE);
}

void* Linux::Reserve(size_t bytes, size_t alignment, void* hint) noexcept {
  // The heap takes whole regions; what else reserves address space protects single pages of it.
  const bool heap = alignment == kTrackerBytes && bytes % kTrackerBytes == 0;
  if (heap && region_hooks != nullptr && region_hooks->asked()) {
    return region_hooks->reserve(bytes, alignment);
  }
  if (heap && backing_file != nullptr) return backing_file->Reserve(bytes);
  return MapAligned(bytes, alignment, hint, PROT_NONE);
}

bool Linux::ReservesWithoutAccess() noexcept {
  return backing_file == nullptr && region_hooks == nullptr;
}

bool Linux::Commit(void* p, size_t bytes) noexcept {
  if (IsBacked(p)) return backing_file->Commit(p, bytes);
  if (IsHooked(p)) return region_hooks->commit(p, bytes);
  return !Failed(Call(call::mprotect, Bits(p), static_cast<long>(bytes), PROT_READ | PROT_WRITE));
}

void Linux::Decommit(void* p, size_t bytes) noexcept {
  if (IsBacked(p)) return backing_file->Decommit(p, bytes);
  if (IsHooked(p)) return;
  Call(call::mprotect, Bits(p), static_cast<long>(bytes), PROT_NONE);
}

void Linux::Unmap(void* p, size_t bytes) noexcept {
  if (IsBacked(p)) return backing_file->Unmap(p, bytes);
  if (IsHooked(p)) return region_hooks->unmap(p, bytes);
  if (bytes == 0) return;
#if defined(GRANARY_THREAD_SANITIZER)
  // The sanitizer must forget the accesses here: another thread may map the same addresses next.
  munmap(p, bytes);
#else
  Call(call::munmap, Bits(p), static_cast<long>(bytes));
#endif
}

constinit SystemCalls system_calls;

bool Linux::Discard(void* p, size_t bytes) noexcept {
  return !Failed(Advise(p, bytes, MADV_DONTNEED));
}

bool Linux::Purge(void* p, size_t bytes) noexcept {
  const uint64_t before = NowNanos();
  const bool done = IsBacked(p)   ? backing_file->Purge(p, bytes)
                    : IsHooked(p) ? region_hooks->purge(p, bytes)
                                  : Discard(p, bytes);
  system_calls.release_nanos.fetch_add(NowNanos() - before, std::memory_order_relaxed);
  system_calls.release_calls.fetch_add(1, std::memory_order_relaxed);
  return done;
}

// Pages of a locked mapping are never swapped out, so that those that are not in memory were never
// touched. Whatever else the refusal came from, each page may have bytes.
void Linux::Clear(void* p, size_t bytes) noexcept {
  if (IsBacked(p) || IsHooked(p)) {
    __builtin_memset(p, 0, bytes);
    return;
  }
  constexpr long kInvalid = -22;
  const bool locked = Advise(p, bytes, MADV_DONTNEED) == kInvalid;
  const size_t page = PageSize();
  unsigned char resident[kTrackerBytes / kMinOsPage];
  for (size_t at = 0; at < bytes;) {
    char* const piece = static_cast<char*>(p) + at;
    const size_t count =
        bytes - at < sizeof resident * page ? (bytes - at) / page : sizeof resident;
    const bool known = locked && !Failed(Call(call::mincore, Bits(piece),
                                              static_cast<long>(count * page), Bits(resident)));
    for (size_t i = 0; i < count; ++i) {
      if (!known || (resident[i] & 1) != 0) __builtin_memset(piece + i * page, 0, page);
    }
    at += count * page;
  }
}

bool Linux::Populate(void* p, size_t bytes) noexcept {
  return !Failed(Advise(p, bytes, MADV_POPULATE_WRITE));
}

void Linux::AllowHuge(void* p, size_t bytes, bool allow) noexcept {
  Advise(p, bytes, allow ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

// Advice about a part of a huge page that no other process maps makes the kernel split the huge
// page. MADV_COLD has no further effect here, because the page is purged anyway. Kernels before 5.4
// do not know this advice, and split later.
void Linux::SplitHuge(void* p) noexcept { Advise(p, PageSize(), MADV_COLD); }

namespace {

bool Limited(int resource) {
  rlimit64 limit{};
  return Failed(Call(call::prlimit64, 0, resource, 0, Bits(&limit))) ||
         limit.rlim_cur != RLIM64_INFINITY;
}

// Overcommit mode 2 of the kernel charges address space as if it were memory.
bool CommitIsStrict() {
  static std::atomic<char> mode{0};
  char known = mode.load(std::memory_order_relaxed);
  if (known != 0) return known == '2';
  const long file =
      Call(call::openat, AT_FDCWD, Bits("/proc/sys/vm/overcommit_memory"), O_RDONLY | O_CLOEXEC);
  if (Failed(file) || Failed(Call(call::read, file, Bits(&known), 1))) known = '2';
  if (!Failed(file)) Call(call::close, file);
  mode.store(known, std::memory_order_relaxed);
  return known == '2';
}

// Not on arm64: qemu's emulation unmaps the source in spite of the flag, and this was not tested on
// an arm64 kernel.
#if defined(__aarch64__)
constexpr bool kMovesPages = false;
#else
constexpr bool kMovesPages = true;
#endif

bool Remap(void* from, size_t bytes, void* to, int flags) {
  return !Failed(Call(call::mremap, Bits(from), static_cast<long>(bytes), static_cast<long>(bytes),
                      MREMAP_MAYMOVE | MREMAP_FIXED | flags, Bits(to)));
}

// Whether the kernel moves pages in this way at all, tried where nothing can be lost.
bool MovesPages() {
  enum : uint8_t { kUnknown, kYes, kNo };
  static std::atomic<uint8_t> known{kUnknown};
  uint8_t moves = known.load(std::memory_order_relaxed);
  if (moves == kUnknown) {
    const size_t page = Linux::PageSize();
    char* const p = static_cast<char*>(MapAt(2 * page, nullptr, PROT_READ | PROT_WRITE));
    if (p == nullptr) return false;
    moves = Remap(p, page, p + page, MREMAP_DONTUNMAP) ? kYes : kNo;
    known.store(moves, std::memory_order_relaxed);
    Linux::Unmap(p, 2 * page);
  }
  return moves == kYes;
}

// After a refused move: maps the hole at p, if the move left one. False if p is mapped: the kernel
// refused before it unmapped p, or another thread's mmap received the hole. These two cases cannot
// be distinguished.
bool CloseHole(void* p, size_t bytes) {
  const long at = Call(call::mmap, Bits(p), static_cast<long>(bytes), PROT_READ | PROT_WRITE,
                       kMapFlags | MAP_FIXED_NOREPLACE, -1, 0);
  if (Failed(at)) return false;
  if (at == Bits(p)) return true;
  // Kernels before 4.17 take the address for a wish.
  Call(call::munmap, at, static_cast<long>(bytes));
  return false;
}

}  // namespace

// The kernel unmaps the target before it checks limits on address space, so that a refusal leaves a
// hole in the heap: where there are such limits, it is not asked. Before 6.17 it does so as well
// when the source is more than one mapping. A region is one, unless the program gave advice about a
// part of it.
MoveResult Linux::MovePages(void* from, size_t bytes, void* to) noexcept {
  MoveResult result;
  if (backing_file != nullptr || region_hooks != nullptr) return result;
  if (!kMovesPages || Limited(RLIMIT_AS) || Limited(RLIMIT_DATA) || CommitIsStrict()) return result;
  if (!MovesPages()) return result;
  while (result.bytes < bytes) {
    const size_t left = bytes - result.bytes;
    const size_t step = left < kTrackerBytes ? left : kTrackerBytes;
    char* const target = static_cast<char*>(to) + result.bytes;
    if (!Remap(static_cast<char*>(from) + result.bytes, step, target, MREMAP_DONTUNMAP)) {
      result.lost = !CloseHole(target, step);
      break;
    }
    result.bytes += step;
  }
  return result;
}

// An emulator may accept the advice and ignore it, so the first guard is tried.
bool Linux::Guard(void* p, size_t bytes) noexcept {
  enum : char { kUntried, kWorks, kIgnored };
  static std::atomic<char> known{kUntried};
  if (known.load(std::memory_order_relaxed) == kIgnored || IsBacked(p) || IsHooked(p)) {
    return false;
  }
  if (Failed(Advise(p, bytes, MADV_GUARD_INSTALL))) return false;
  if (known.load(std::memory_order_relaxed) == kUntried) {
    known.store(IsReadable(p) ? kIgnored : kWorks, std::memory_order_relaxed);
  }
  return known.load(std::memory_order_relaxed) == kWorks;
}

void Linux::Unguard(void* p, size_t bytes) noexcept { Advise(p, bytes, MADV_GUARD_REMOVE); }

size_t Linux::PageSize() noexcept { return getauxval(AT_PAGESZ); }

}  // namespace granary
