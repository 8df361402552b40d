#include "os/backing_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <new>

#include "base/bits.h"
#include "base/check.h"
#include "base/writer.h"
#include "os/advice.h"
#include "os/system_call.h"

namespace granary {

constinit BackingFile* backing_file = nullptr;

namespace {

constexpr size_t kRegion = kTrackerBytes;

const char* WordsOf(long error) {
  switch (-error) {
    case ENOENT:
    case ENOTDIR:
      return "there is no such folder";
    case EACCES:
    case EPERM:
      return "this user may not create a file there";
    case EROFS:
      return "the file system is read-only";
    case ENOSPC:
    case EDQUOT:
      return "the file system is full";
    case EEXIST:
      return "a file of this name is there: remove it";
    case EMFILE:
    case ENFILE:
      return "too many files are open";
    case ENOMEM:
      return "the limit of address space (ulimit -v) is too low";
    case EOPNOTSUPP:
      return "the file system cannot allocate space ahead (fallocate)";
    default:
      return "the system refuses";
  }
}

long Allocate(int file, int mode, size_t at, size_t bytes) {
  long result;
  do {
    result = Call(call::fallocate, file, mode, static_cast<long>(at), static_cast<long>(bytes));
  } while (result == -EINTR);
  return result;
}

long Protect(uintptr_t at, size_t bytes, int access) {
  return Call(call::mprotect, static_cast<long>(at), static_cast<long>(bytes), access);
}

long MapAnonymous(size_t bytes, int access) {
  return Call(call::mmap, 0, static_cast<long>(bytes), access,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void DropMapping(uintptr_t at, size_t bytes) {
  if (bytes > 0) Call(call::munmap, static_cast<long>(at), static_cast<long>(bytes));
}

long MapFile(uintptr_t at, size_t bytes, int file) {
  return Call(call::mmap, static_cast<long>(at), static_cast<long>(bytes), PROT_NONE,
              MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, 0);
}

bool WriteAt(int file, uintptr_t from, size_t bytes, size_t at) {
  while (bytes > 0) {
    const long done = Call(call::pwrite64, file, static_cast<long>(from), static_cast<long>(bytes),
                           static_cast<long>(at));
    if (done == -EINTR) continue;
    if (done <= 0) return false;
    from += static_cast<size_t>(done);
    at += static_cast<size_t>(done);
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

}  // namespace

bool BackingFile::File::IsOpen() const noexcept {
  struct stat status {};
  return number >= 0 && !Failed(Call(call::fstat, number, Bits(&status))) &&
         status.st_dev == device && status.st_ino == inode;
}

void BackingFile::File::Close() noexcept {
  if (IsOpen()) Call(call::close, number);
  number = -1;
}

bool BackingFile::Refuse(const char* what, long error) noexcept {
  char text[400];
  Writer w(text, sizeof text);
  w.Text("granary: option backing: ").Text(what).Text(" ").Text(path_).Text(": ");
  w.Text(WordsOf(error)).Text(" (error ").Number(static_cast<uint64_t>(-error));
  w.Text("); the heap is in ordinary memory\n");
  Warn(w.data(), w.size());
  return false;
}

// The number of the descriptor is one that programs hardly use, which close the first few.
bool BackingFile::Create(const char* suffix, File* file) noexcept {
  char name[256];
  Writer w(name, sizeof name - 1);
  w.Text(path_).Text(".").Number(static_cast<uint64_t>(Call(call::getpid))).Text(suffix);
  name[w.size()] = 0;
  const long made = Call(call::openat, AT_FDCWD, Bits(name),
                         O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (Failed(made)) return Refuse("cannot create a file beside", made);
  Call(call::unlinkat, AT_FDCWD, Bits(name));
  constexpr long kLeastNumber = 768;
  const long moved = Call(call::fcntl, made, F_DUPFD_CLOEXEC, kLeastNumber);
  if (!Failed(moved)) Call(call::close, made);
  file->number = static_cast<int>(Failed(moved) ? made : moved);
  struct stat status {};
  Call(call::fstat, file->number, Bits(&status));
  file->device = status.st_dev;
  file->inode = status.st_ino;
  return true;
}

// Four times the file system, because address space that is returned in odd pieces is not used
// again; less where files may not be so large.
bool BackingFile::Size() noexcept {
  constexpr size_t kLeast = kGiB, kMost = 8 * kTiB;
  rlimit64 limit{};
  Call(call::prlimit64, 0, RLIMIT_FSIZE, 0, Bits(&limit));
  if (limit.rlim_cur != RLIM64_INFINITY) return Refuse("with a limit of file sizes, for", -EFBIG);
  struct statfs system {};
  Call(call::fstatfs, file_.number, Bits(&system));
  const size_t whole = static_cast<size_t>(system.f_blocks) * static_cast<size_t>(system.f_bsize);
  size_t bytes = whole == 0 || whole > kMost / 4 ? kMost : RoundUp(whole * 4, kLeast);
  long result;
  while (Failed(result = Call(call::ftruncate, file_.number, static_cast<long>(bytes))) &&
         bytes > kLeast) {
    bytes = RoundUp(bytes / 2, kLeast);
  }
  if (Failed(result)) return Refuse("cannot enlarge a file beside", result);
  bytes_ = bytes;
  return true;
}

bool BackingFile::MapWhole() noexcept {
  const long space = MapAnonymous(bytes_ + kRegion, PROT_NONE);
  if (Failed(space)) return Refuse("cannot map a file beside", space);
  base_ = RoundUp(static_cast<uintptr_t>(space), kRegion);
  DropMapping(static_cast<uintptr_t>(space), base_ - static_cast<uintptr_t>(space));
  DropMapping(base_ + bytes_, static_cast<uintptr_t>(space) + kRegion - base_);
  const long bits = MapAnonymous(bytes_ / kRegion / 8, PROT_READ | PROT_WRITE);
  const long mapped = MapFile(base_, bytes_, file_.number);
  if (Failed(mapped) || Failed(bits)) {
    DropMapping(base_, bytes_);
    return Refuse("cannot map a file beside", Failed(mapped) ? mapped : bits);
  }
  committed_ = reinterpret_cast<std::atomic<uint8_t>*>(bits);
  return true;
}

bool BackingFile::Begin(const char* path) noexcept {
  Writer w(path_, sizeof path_ - 1);
  w.Text(path);
  if (!Create("", &file_)) return false;
  const long tried = Allocate(file_.number, 0, 0, kRegion);
  const bool done =
      Failed(tried) ? Refuse("cannot use a file beside", tried) : Size() && MapWhole();
  if (!done) file_.Close();
  return done;
}

bool BackingFile::Open(const char* path) noexcept {
  constexpr size_t kBytes = RoundUp(sizeof(BackingFile), 64 * kKiB);
  const long memory = MapAnonymous(kBytes, PROT_READ | PROT_WRITE);
  if (Failed(memory)) return false;
  auto* const file = new (reinterpret_cast<void*>(memory)) BackingFile();
  if (file->Begin(path)) {
    backing_file = file;
    return true;
  }
  DropMapping(static_cast<uintptr_t>(memory), kBytes);
  return false;
}

void* BackingFile::Reserve(size_t bytes) noexcept {
  Locked hold(lock_);
  for (Range& gap : gaps_) {
    if (gap.bytes < bytes) continue;
    void* const p = reinterpret_cast<void*>(base_ + gap.at);
    gap = {gap.at + bytes, gap.bytes - bytes};
    return p;
  }
  if (bytes > bytes_ - reserved_) return nullptr;
  void* const p = reinterpret_cast<void*>(base_ + reserved_);
  reserved_ += bytes;
  return p;
}

bool BackingFile::Commit(void* p, size_t bytes) noexcept {
  const size_t at = OffsetOf(p);
  const bool open = file_.IsOpen();
  long result = open ? Allocate(file_.number, 0, at, bytes) : 0;
  if (!Failed(result)) result = Protect(AddressOf(p), bytes, PROT_READ | PROT_WRITE);
  // A program that closes all files has closed this one: writing ahead allocates as well.
  if (!Failed(result) && !open) {
    result = Call(call::madvise, Bits(p), static_cast<long>(bytes), MADV_POPULATE_WRITE);
    if (Failed(result)) Protect(AddressOf(p), bytes, PROT_NONE);
  }
  if (!Failed(result)) {
    Mark(at, bytes, true);
    return true;
  }
  if (warned_full_) return false;
  warned_full_ = true;
  char text[400];
  Writer w(text, sizeof text);
  w.Text("granary: option backing: the heap cannot grow in the file system of ").Text(path_);
  w.Text(": ").Text(open ? WordsOf(result) : "it is full, or the kernel cannot fill it ahead");
  w.Text("; allocations that need more memory fail\n");
  Warn(w.data(), w.size());
  return false;
}

bool BackingFile::Punch(size_t at, size_t bytes) noexcept {
  if (file_.IsOpen()) {
    return !Failed(Allocate(file_.number, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, bytes));
  }
  return !Failed(
      Call(call::madvise, static_cast<long>(base_ + at), static_cast<long>(bytes), MADV_REMOVE));
}

void BackingFile::Decommit(void* p, size_t bytes) noexcept {
  Protect(AddressOf(p), bytes, PROT_NONE);
  Punch(OffsetOf(p), bytes);
  Mark(OffsetOf(p), bytes, false);
}

void BackingFile::Unmap(void* p, size_t bytes) noexcept {
  const size_t at = OffsetOf(p);
  Decommit(p, bytes);
  Locked hold(lock_);
  if (at + bytes == reserved_) {
    reserved_ = at;
    return;
  }
  Range* least = &gaps_[0];
  for (Range& gap : gaps_) {
    if (gap.bytes < least->bytes) least = &gap;
  }
  if (least->bytes < bytes) *least = {at, bytes};
}

// A hole would give the blocks back, and a write into it ends the program when the disk is full.
bool BackingFile::Purge(void* p, size_t bytes) noexcept {
  const size_t at = OffsetOf(p);
  if (zeroes_ && file_.IsOpen()) {
    const long result =
        Allocate(file_.number, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, at, bytes);
    if (!Failed(result)) return true;
    if (result == -EOPNOTSUPP) zeroes_ = false;
  }
  return Punch(at, bytes);
}

void BackingFile::Mark(size_t at, size_t bytes, bool committed) noexcept {
  for (size_t region = at / kRegion; region < (at + bytes) / kRegion; ++region) {
    const auto bit = static_cast<uint8_t>(1u << region % 8);
    if (committed) {
      committed_[region / 8].fetch_or(bit, std::memory_order_relaxed);
    } else {
      committed_[region / 8].fetch_and(static_cast<uint8_t>(~bit), std::memory_order_relaxed);
    }
  }
}

BackingFile::Range BackingFile::NextCommitted(size_t at) const noexcept {
  size_t first = at / kRegion;
  const size_t end = reserved_ / kRegion;
  while (first < end && !IsCommitted(first)) ++first;
  size_t last = first;
  while (last < end && IsCommitted(last)) ++last;
  return {first * kRegion, (last - first) * kRegion};
}

// Only what is not a hole is written; the rest of the run gets its blocks.
bool BackingFile::CopyRun(const File& to, Range run) noexcept {
  if (Failed(Allocate(to.number, 0, run.at, run.bytes))) return false;
  const bool sparse = file_.IsOpen();
  const size_t end = run.at + run.bytes;
  for (size_t at = run.at; at < end;) {
    size_t from = at, until = end;
    if (sparse) {
      const long data = Call(call::lseek, file_.number, static_cast<long>(at), SEEK_DATA);
      if (Failed(data)) return data == -ENXIO;
      from = static_cast<size_t>(data);
      if (from >= end) return true;
      const long hole = Call(call::lseek, file_.number, data, SEEK_HOLE);
      if (!Failed(hole) && static_cast<size_t>(hole) < end) until = static_cast<size_t>(hole);
    }
    if (!WriteAt(to.number, base_ + from, until - from, from)) return false;
    at = until;
  }
  return true;
}

bool BackingFile::CopyTo(File* copy) noexcept {
  if (!Create(".fork", copy)) return false;
  bool done = !Failed(Call(call::ftruncate, copy->number, static_cast<long>(bytes_)));
  for (Range run = NextCommitted(0); done && run.bytes > 0;
       run = NextCommitted(run.at + run.bytes)) {
    done = CopyRun(*copy, run);
  }
  if (!done) copy->Close();
  return done;
}

void BackingFile::PrepareFork(bool locked) noexcept {
  if (locked) lock_.Lock();
  if (!CopyTo(&copy_)) copy_ = {};
}

void BackingFile::TakeCopy() noexcept {
  if (copy_.number < 0) {
    Die("option backing: a forked process cannot have its own copy of the heap, as its file system "
        "is full: this process ends, its parent goes on");
  }
  MapFile(base_, bytes_, copy_.number);
  for (Range run = NextCommitted(0); run.bytes > 0; run = NextCommitted(run.at + run.bytes)) {
    Protect(base_ + run.at, run.bytes, PROT_READ | PROT_WRITE);
  }
  file_.Close();
  file_ = copy_;
  copy_ = {};
}

void BackingFile::AfterFork(bool child, bool locked) noexcept {
  if (child) {
    TakeCopy();
    if (locked) lock_.Reset();
    return;
  }
  copy_.Close();
  if (locked) lock_.Unlock();
}

}  // namespace granary
