// What Granary asks of an operating system: one page, checked as a concept. Only this folder names
// system calls. The library runs on Linux (linux.h); tests run on fake_os.h.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace granary {

template <class T>
concept Os = requires(void* p, size_t n, std::atomic<uint32_t>& word, uint32_t value) {
  // Address space, zeroed on first touch, aligned to `alignment` (a power of two >= an OS page);
  // placed at or after `hint` if that is free. nullptr when the system refuses.
  { T::Map(n, n, p) }
  noexcept->std::same_as<void*>;
  { T::Unmap(p, n) }
  noexcept;
  // The content is lost and reads as zero again; the address stays ours. False if refused.
  { T::Release(p, n) }
  noexcept->std::same_as<bool>;
  // Faults the pages in for writing ahead of need. False if it could not.
  { T::Populate(p, n) }
  noexcept->std::same_as<bool>;
  // Whether the kernel may back the range with huge pages on touch, or gather it into one later.
  { T::AllowHuge(p, n, true) }
  noexcept;
  // Cuts the huge page that p lies on, if there is one, into small ones: before that, what is
  // released of it leaves the process but not the memory in use.
  { T::SplitHuge(p) }
  noexcept;
  // Moves the pages of [p, p+n) to an address of ours; what was there is lost, p reads as zero.
  // Returns how many bytes from the start were moved; the rest is as before, zero at the target.
  { T::MovePages(p, n, p) }
  noexcept->std::same_as<size_t>;
  { T::PageSize() }
  noexcept->std::same_as<size_t>;
  { T::NowMillis() }
  noexcept->std::same_as<uint64_t>;  // monotonic, coarse
  { T::ThreadNanos() }
  noexcept->std::same_as<uint64_t>;  // CPU time of the calling thread
  { T::CpuCount() }
  noexcept->std::same_as<unsigned>;  // CPUs this process may use; 0 if
                                     // the machine has over kMaxCpus
  { T::CpuLimit() }
  noexcept->std::same_as<size_t>;  // CPU numbers are below this; 0 likewise
  // Aborts the restartable sequence that any thread of this process is in. False if unsupported.
  { T::AbortRestartables() }
  noexcept->std::same_as<bool>;
  { T::Wait(word, value) }
  noexcept;  // sleeps while word == value; may return early
  { T::Wake(word) }
  noexcept;  // wakes one sleeper
};

}  // namespace granary
