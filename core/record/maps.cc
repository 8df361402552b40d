#include "maps.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "format.h"
#include "recorder.h"

namespace granary::record {

namespace {

struct Range {
  uintptr_t begin, end;
};
constexpr size_t kMostRanges = 1024;
constexpr int kMostCopies = 100;  // code that is made at run time is in no row
constexpr size_t kTextBytesOfChunk = kChunkBytes - sizeof(ChunkHeader);

int lock;
Range ranges[kMostRanges];
size_t range_count;
int copies;

bool IsKnown(uintptr_t frame) {
  for (size_t i = 0; i < range_count; ++i) {
    if (frame - ranges[i].begin < ranges[i].end - ranges[i].begin) return true;
  }
  return false;
}

const char* Hexadecimal(const char* at, uintptr_t* number) {
  for (*number = 0;; ++at) {
    if (*at >= '0' && *at <= '9') {
      *number = *number * 16 + static_cast<uintptr_t>(*at - '0');
    } else if (*at >= 'a' && *at <= 'f') {
      *number = *number * 16 + static_cast<uintptr_t>(*at - 'a' + 10);
    } else {
      return at;
    }
  }
}

// A row of the file: begin-end rights offset device inode path.
void CopyRow(const char* row, size_t length, char* to, size_t* used) {
  Range range;
  const char* const rights = Hexadecimal(Hexadecimal(row, &range.begin) + 1, &range.end);
  const bool has_code = rights + 4 < row + length && rights[3] == 'x';
  if (!has_code || memchr(row, '/', length) == nullptr || range_count == kMostRanges) return;
  if (*used + length > kTextBytesOfChunk) return;
  ranges[range_count++] = range;
  memcpy(to + *used, row, length);
  *used += length;
}

void CopyMaps(char* to) {
  const int file =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (file < 0) return;
  char text[8192];
  size_t held = 0, used = 0;
  for (ssize_t got; (got = read(file, text + held, sizeof text - held)) > 0;) {
    held += static_cast<size_t>(got);
    size_t begin = 0;
    while (const void* end = memchr(text + begin, '\n', held - begin)) {
      const size_t next = static_cast<size_t>(static_cast<const char*>(end) - text) + 1;
      CopyRow(text + begin, next - begin, to, &used);
      begin = next;
    }
    held -= begin;
    memmove(text, text + begin, held);
    if (held == sizeof text) held = 0;  // a row without an end
  }
  close(file);
}

}  // namespace

void NoteModules(const uintptr_t* frames, size_t count) {
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE) != 0) sched_yield();
  bool known = true;
  for (size_t i = 0; i < count && known; ++i) known = IsKnown(frames[i]);
  if (!known && copies < kMostCopies) {
    ++copies;
    if (uint8_t* const chunk = ChunkOf(kMapsThread); chunk != nullptr) {
      range_count = 0;
      CopyMaps(reinterpret_cast<char*>(chunk) + sizeof(ChunkHeader));
    }
  }
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

void ForgetModules() {
  range_count = 0;
  copies = 0;
  lock = 0;  // in a child of fork, a thread of the parent may have held it
}

}  // namespace granary::record
