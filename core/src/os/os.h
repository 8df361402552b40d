// The operating system that Granary needs, as a concept. Only this folder names system calls. The
// library runs on Linux (linux.h); tests run on fake_os.h.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace granary {

// The result of moving pages. If `lost` is set, the memory after the moved bytes, up to the next
// 2 MiB, no longer belongs to Granary: another thread of the program may have a mapping there.
struct MoveResult {
  size_t bytes = 0;
  bool lost = false;
};

template <class T>
concept Os = requires(void* p, size_t n, std::atomic<uint32_t>& word, uint32_t value) {
  // Maps address space, zeroed on first touch, aligned to `alignment` (a power of two >= an OS
  // page), at or after `hint` if that is free. nullptr when the kernel refuses.
  { T::Map(n, n, p) }
  noexcept->std::same_as<void*>;
  // The same, but without access and without a charge until parts of it are committed; then they
  // read as zero. Commit returns false when the system refuses.
  { T::Reserve(n, n, p) }
  noexcept->std::same_as<void*>;
  { T::Commit(p, n) }
  noexcept->std::same_as<bool>;
  // For what was committed and never touched.
  { T::Decommit(p, n) }
  noexcept;
  { T::Unmap(p, n) }
  noexcept;
  // Purges the pages: they read as zero again, and the address space stays mapped. False if
  // refused.
  { T::Purge(p, n) }
  noexcept->std::same_as<bool>;
  // Takes the access to the pages away and purges them, until Unguard; needs no mapping of its own.
  // False if the kernel has no such guards, or refuses.
  { T::Guard(p, n) }
  noexcept->std::same_as<bool>;
  { T::Unguard(p, n) }
  noexcept;
  // Where Purge was refused: clears what is resident, and makes no other page resident.
  { T::Clear(p, n) }
  noexcept;
  // Faults the pages in for writing ahead of need. False if it could not.
  { T::Populate(p, n) }
  noexcept->std::same_as<bool>;
  // Whether the kernel may back the range with huge pages, at the first touch or later.
  { T::AllowHuge(p, n, true) }
  noexcept;
  // Splits the huge page that contains p, if there is one, into small pages. Before the split,
  // purging a part of it lowers the RSS of the process but frees no physical memory.
  { T::SplitHuge(p) }
  noexcept;
  // Moves the pages of [p, p+n) to another address that Granary mapped. The content of the target
  // is lost, and p reads as zero. Pages that were not moved keep their content.
  { T::MovePages(p, n, p) }
  noexcept->std::same_as<MoveResult>;
  { T::PageSize() }
  noexcept->std::same_as<size_t>;
  { T::NowMillis() }
  noexcept->std::same_as<uint64_t>;  // monotonic, coarse
  { T::NowNanos() }
  noexcept->std::same_as<uint64_t>;  // monotonic
  { T::ThreadNanos() }
  noexcept->std::same_as<uint64_t>;  // CPU time of the calling thread
  { T::CpuCount() }
  noexcept->std::same_as<unsigned>;  // CPUs this process may use; 0 if
                                     // the machine has over kMaxCpus
  { T::CpuLimit() }
  noexcept->std::same_as<size_t>;  // CPU numbers are below this; 0 on such machines, too
  // Aborts the restartable sequence that any thread of this process is in. False if unsupported.
  { T::AbortRestartables() }
  noexcept->std::same_as<bool>;
  { T::Wait(word, value) }
  noexcept;  // sleeps while word == value; may return early
  { T::Wake(word) }
  noexcept;  // wakes one sleeper
};

// The bytes of a huge page: as many pages as a table of pages, which is one page, has entries of 8
// bytes. 2 MiB with pages of 4 KiB, 32 MiB with 16 KiB, 512 MiB with 64 KiB.
template <Os System>
size_t HugePageBytes() noexcept {
  return System::PageSize() / 8 * System::PageSize();
}

}  // namespace granary
