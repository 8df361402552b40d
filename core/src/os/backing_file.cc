#include "os/backing_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <atomic>
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

// Where offset `at` lies in the bitmap of committed pages.
constexpr size_t PageOf(size_t at) { return at / kMinOsPage; }

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

// 0, or a negative error.
long WriteAt(int file, uintptr_t from, size_t bytes, size_t at) {
  while (bytes > 0) {
    const long done = Call(call::pwrite64, file, static_cast<long>(from), static_cast<long>(bytes),
                           static_cast<long>(at));
    if (done == -EINTR) continue;
    if (done <= 0) return done < 0 ? done : -ENOSPC;
    from += static_cast<size_t>(done);
    at += static_cast<size_t>(done);
    bytes -= static_cast<size_t>(done);
  }
  return 0;
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
long BackingFile::Create(const char* suffix, File* file) noexcept {
  char name[256];
  Writer w(name, sizeof name - 1);
  w.Text(path_).Text(".").Number(static_cast<uint64_t>(Call(call::getpid))).Text(suffix);
  name[w.size()] = 0;
  const long made = Call(call::openat, AT_FDCWD, Bits(name),
                         O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (Failed(made)) return made;
  Call(call::unlinkat, AT_FDCWD, Bits(name));
  constexpr long kLeastNumber = 768;
  const long moved = Call(call::fcntl, made, F_DUPFD_CLOEXEC, kLeastNumber);
  if (!Failed(moved)) Call(call::close, made);
  file->number = static_cast<int>(Failed(moved) ? made : moved);
  struct stat status {};
  Call(call::fstat, file->number, Bits(&status));
  file->device = status.st_dev;
  file->inode = status.st_ino;
  return 0;
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
  const long bits = MapAnonymous(PageOf(bytes_) / 8, PROT_READ | PROT_WRITE);
  const long mapped = MapFile(base_, bytes_, file_.number);
  if (Failed(mapped) || Failed(bits)) {
    DropMapping(base_, bytes_);
    return Refuse("cannot map a file beside", Failed(mapped) ? mapped : bits);
  }
  committed_ = reinterpret_cast<uint64_t*>(bits);
  return true;
}

bool BackingFile::Begin(const char* path) noexcept {
  Writer w(path_, sizeof path_ - 1);
  w.Text(path);
  const long made = Create("", &file_);
  if (Failed(made)) return Refuse("cannot create a file beside", made);
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
  ForWords(PageOf(at), PageOf(bytes), [&](size_t w, uint64_t mask) {
    std::atomic_ref<uint64_t> word(committed_[w]);
    if (committed) {
      word.fetch_or(mask, std::memory_order_relaxed);
    } else {
      word.fetch_and(~mask, std::memory_order_relaxed);
    }
  });
}

BackingFile::Range BackingFile::NextCommitted(size_t at) const noexcept {
  const BitRun run = NextRun(committed_, PageOf(at), PageOf(reserved_), true);
  return {run.first * kMinOsPage, run.count * kMinOsPage};
}

// For memory that the program itself protected, which the kernel cannot read.
long BackingFile::CopyThroughBuffer(const File& to, Range run) noexcept {
  char buffer[kMinOsPage];
  for (size_t at = run.at, end = run.at + run.bytes; at < end;) {
    const size_t most = end - at < sizeof buffer ? end - at : sizeof buffer;
    const long got = Call(call::pread64, file_.number, Bits(buffer), static_cast<long>(most),
                          static_cast<long>(at));
    if (got == -EINTR) continue;
    if (got <= 0) return got < 0 ? got : -EIO;
    const long written = WriteAt(to.number, AddressOf(buffer), static_cast<size_t>(got), at);
    if (Failed(written)) return written;
    at += static_cast<size_t>(got);
  }
  return 0;
}

// Only what is not a hole is written; the rest of the run gets its blocks.
long BackingFile::CopyRun(const File& to, Range run) noexcept {
  const long allocated = Allocate(to.number, 0, run.at, run.bytes);
  if (Failed(allocated)) return allocated;
  const bool sparse = file_.IsOpen();
  const size_t end = run.at + run.bytes;
  for (size_t at = run.at; at < end;) {
    size_t from = at, until = end;
    if (sparse) {
      const long data = Call(call::lseek, file_.number, static_cast<long>(at), SEEK_DATA);
      if (Failed(data)) return data == -ENXIO ? 0 : data;
      from = static_cast<size_t>(data);
      if (from >= end) return 0;
      const long hole = Call(call::lseek, file_.number, data, SEEK_HOLE);
      if (!Failed(hole) && static_cast<size_t>(hole) < end) until = static_cast<size_t>(hole);
    }
    long written = WriteAt(to.number, base_ + from, until - from, from);
    if (written == -EFAULT && sparse) written = CopyThroughBuffer(to, {from, until - from});
    if (Failed(written)) return written;
    at = until;
  }
  return 0;
}

long BackingFile::CopyTo(File* copy) noexcept {
  const long made = Create(".fork", copy);
  if (Failed(made)) return made;
  long result = Call(call::ftruncate, copy->number, static_cast<long>(bytes_));
  for (Range run = NextCommitted(0); !Failed(result) && run.bytes > 0;
       run = NextCommitted(run.at + run.bytes)) {
    result = CopyRun(*copy, run);
  }
  if (Failed(result)) copy->Close();
  return result;
}

void BackingFile::PrepareFork(bool locked) noexcept {
  if (locked) lock_.Lock();
  copy_error_ = CopyTo(&copy_);
}

void BackingFile::DieWithoutCopy() const noexcept {
  char text[400];
  Writer w(text, sizeof text - 1);
  w.Text("option backing: a forked process cannot have its own copy of the heap beside ");
  w.Text(path_).Text(": ").Text(WordsOf(copy_error_)).Text(" (error ");
  w.Number(static_cast<uint64_t>(-copy_error_));
  w.Text("); this process ends, its parent goes on");
  text[w.size()] = 0;
  Die(text);
}

// Pages that are not committed keep no access, as the parent's.
void BackingFile::TakeCopy() noexcept {
  if (Failed(copy_error_)) DieWithoutCopy();
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
