#include "written.h"

#include <errno.h>
#include <sys/mman.h>

#include "next.h"

namespace granary::record {

constinit Written written{};

namespace {

struct Pages {
  char* begin;
  size_t bytes;
};

// The pages that are whole inside an object.
Pages WholePages(const void* p, size_t size, size_t page) {
  const auto from = reinterpret_cast<uintptr_t>(p);
  const uintptr_t begin = (from + page - 1) & ~(page - 1);
  const uintptr_t end = (from + size) & ~(page - 1);
  return {reinterpret_cast<char*>(begin), end > begin ? end - begin : 0};
}

// How many bytes of the pages are in memory. Pages in swap are not counted.
size_t Resident(Pages pages, size_t page) {
  constexpr size_t kAtOnce = 2048;
  unsigned char is_resident[kAtOnce];
  size_t bytes = 0;
  for (size_t done = 0; done < pages.bytes;) {
    const size_t rest = pages.bytes - done;
    const size_t part = rest < kAtOnce * page ? rest : kAtOnce * page;
    if (mincore(pages.begin + done, part, is_resident) != 0) return pages.bytes;
    for (size_t i = 0; i < part / page; ++i) bytes += (is_resident[i] & 1u) * page;
    done += part;
  }
  return bytes;
}

}  // namespace

bool Written::Start() {
  constexpr size_t kBytes = kCounts * sizeof(uint32_t);
  if (memory_ == nullptr) {
    void* const p =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    memory_ = static_cast<uint32_t*>(p);
  }
  usable_size_ = next.usable_size;
  page_ = PageBytes();
  if (usable_size_ == nullptr) return false;
  counts_ = memory_;
  return true;
}

uint32_t& Written::CountOf(const void* p) {
  constexpr unsigned kShift = 64 - 12;
  static_assert(kCounts == size_t{1} << (64 - kShift));
  return counts_[(reinterpret_cast<uintptr_t>(p) >> 3) * 0x9E3779B97F4A7C15u >> kShift];
}

// Zeroed objects are not dropped: what the allocator writes to clear them counts as written.
void Written::Begin(Kind kind, size_t size, void* p) {
  const int error = errno;
  if (UsableSize(p) >= kLeast) __atomic_fetch_add(&CountOf(p), 1, __ATOMIC_RELAXED);
  const Pages pages = WholePages(p, size, page_);
  if (kind == Kind::kAllocated || kind == Kind::kAligned)
    madvise(pages.begin, pages.bytes, MADV_DONTNEED);
  errno = error;
}

void Written::Write(Words& words, const void* p) {
  uint32_t& count = CountOf(p);
  if (__atomic_load_n(&count, __ATOMIC_RELAXED) == 0) return;
  const size_t size = UsableSize(p);
  if (size < kLeast) return;
  const int error = errno;
  __atomic_fetch_sub(&count, 1, __ATOMIC_RELAXED);
  const Pages pages = WholePages(p, size, page_);
  // The bytes before the first whole page and behind the last are taken as written.
  words.Written((size - pages.bytes + Resident(pages, page_)) >> 10);
  errno = error;
}

}  // namespace granary::record
