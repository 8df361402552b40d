#include "file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/writer.h"
#include "clock.h"
#include "next.h"
#include "os/advice.h"

namespace granary::record {

namespace {

constexpr int kNewFile = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;

// System calls without the C library's wrappers, which the program may have replaced.
int Open(const char* path, int flags) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, 0600));
}

bool Complain(const char* what, const char* path) {
  const int error = errno;
  char line[512];
  Writer w(line, sizeof line);
  w.Text("granary record: cannot ").Text(what).Text(" ").Text(path);
  w.Text(error == ENOSPC   ? ": no space left"
         : error == EACCES ? ": permission denied"
                           : ": error ");
  if (error != ENOSPC && error != EACCES) w.Number(static_cast<uint64_t>(error));
  w.Text("; the program runs unrecorded\n");
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, w.data(), w.size());
  return false;
}

// 0 where /proc is not mounted.
uint64_t PidNamespace() {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

// Field 22 of the process's row; the name in parentheses before may contain anything. 0 where /proc
// is not mounted.
uint64_t ProcessStart() {
  const int file = Open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char row[1024];
  const ssize_t length = read(file, row, sizeof row - 1);
  close(file);
  row[length < 0 ? 0 : length] = 0;
  const char* at = strrchr(row, ')');
  for (int field = 2; at != nullptr && field < 22; ++field) {
    at = strchr(at, ' ');
    if (at != nullptr) ++at;
  }
  return at == nullptr ? 0 : strtoull(at, nullptr, 10);
}

// A process in another PID namespace may have the same number, and a new namespace that of one that
// has ended.
bool IsOfThisProcess(const char* path) {
  const int file = Open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  Header header;
  const bool whole = pread(file, &header, sizeof header, 0) == sizeof header;
  close(file);
  return whole && memcmp(header.magic, kMagic, sizeof kMagic) == 0 &&
         header.pid == static_cast<uint64_t>(getpid()) && header.pid_namespace == PidNamespace() &&
         header.process_start == ProcessStart();
}

void CopyText(char (&to)[kTextBytes], const char* from) {
  const size_t length = strnlen(from, kTextBytes - 1);
  memcpy(to, from, length);
}

void NameAllocator(Header& header) {
  Dl_info owner;
  if (HasNext() && dladdr(reinterpret_cast<void*>(next.malloc), &owner) != 0 &&
      owner.dli_fname != nullptr) {
    CopyText(header.allocator, owner.dli_fname);
  }
  char program[kTextBytes] = {};
  if (readlink("/proc/self/exe", program, sizeof program - 1) > 0)
    CopyText(header.program, program);
}

// The pages of a new chunk, so that a full disk is an error here and no SIGBUS later. Kernels
// before 5.14 do not know the advice: there the pages come with the first writes.
bool Populate(void* pages, size_t bytes) {
  if (madvise(pages, bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL) return true;
  if (errno == EFAULT) errno = ENOSPC;  // the write would end with SIGBUS
  return false;
}

}  // namespace

bool File::Create(const char* path, uint64_t max_bytes, bool keeps_last) {
  int file = Open(path, kNewFile);
  if (file < 0 && errno == EEXIST) {
    if (!IsOfThisProcess(path)) {
      errno = EEXIST;
      return false;
    }
    unlink(path);
    file = Open(path, kNewFile);
  }
  if (file < 0) return Complain("create", path);
  const uint64_t chunks = max_bytes / kChunkBytes;
  bytes_ = kHeaderBytes + chunks * kChunkBytes;
  void* mapped = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(bytes_)) == 0) {
    mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  }
  const bool fine =
      mapped != MAP_FAILED && Populate(mapped, kHeaderBytes) && (!keeps_last || MakeQueue(chunks));
  if (!fine) {
    Complain("write", path);
    unlink(path);  // nothing is in it
    if (mapped != MAP_FAILED) munmap(mapped, bytes_);
  }
  close(file);
  if (!fine) return false;
  header_ = static_cast<Header*>(mapped);
  header_->version = kVersion;
  header_->chunk_bytes = kChunkBytes;
  header_->max_chunks = chunks;
  header_->pid = static_cast<uint64_t>(getpid());
  header_->pid_namespace = PidNamespace();
  header_->process_start = ProcessStart();
  header_->unix_nanoseconds = Nanoseconds(CLOCK_REALTIME);
  header_->first = header_->last = Now();
  NameAllocator(*header_);
  memcpy(header_->magic, kMagic, sizeof kMagic);
  return true;
}

// The queue of an earlier file is left: a thread may be adding to it.
bool File::MakeQueue(uint64_t chunks) {
  void* const memory = mmap(nullptr, chunks * sizeof(Complete), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  queue_ = static_cast<Complete*>(memory);
  queued_ = taken_ = 0;
  return true;
}

void File::Drop() {
  const uint64_t chunks = (bytes_ - kHeaderBytes) / kChunkBytes;
  munmap(header_, bytes_);
  if (queue_ != nullptr) munmap(queue_, chunks * sizeof(Complete));
  queue_ = nullptr;
}

uint8_t* File::NewChunk() {
  Header& h = *header_;
  if (h.stop != Stop::kRunning) return nullptr;
  // The packer of another process takes chunks too. One that both make is its.
  for (uint64_t number = __atomic_load_n(&h.chunks, __ATOMIC_ACQUIRE); number < h.max_chunks;) {
    uint8_t* const chunk = ChunkAt(h, number);
    if (!Populate(chunk, kChunkBytes)) return Ended(Stop::kNoSpace);
    if (__atomic_compare_exchange_n(&h.chunks, &number, number + 1, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
      return chunk;
    }
  }
  return queue_ == nullptr ? Ended(Stop::kFull) : OldestChunk();
}

uint8_t* File::Ended(Stop why) {
  header_->stop = why;
  return nullptr;
}

// A reader finds the old events, without those that are said to be incomplete, or none of them.
uint8_t* File::OldestChunk() {
  Header& h = *header_;
  if (taken_ == queued_) return Ended(Stop::kInUse);
  const Complete oldest = queue_[taken_++ % h.max_chunks];
  __atomic_store_n(&h.overwritten, oldest.ticks, __ATOMIC_RELEASE);
  __atomic_store_n(oldest.chunk + sizeof(ChunkHeader), 0, __ATOMIC_RELEASE);
  if (!Populate(oldest.chunk, kChunkBytes)) return Ended(Stop::kNoSpace);
  memset(oldest.chunk, 0, kChunkBytes);
  return oldest.chunk;
}

void File::Finish(uint8_t* end, uint64_t ticks) {
  uint8_t* const chunk = end - kChunkBytes;
  madvise(chunk, kChunkBytes, MADV_DONTNEED);
  if (queue_ != nullptr) queue_[queued_++ % header_->max_chunks] = {chunk, ticks};
}

}  // namespace granary::record
