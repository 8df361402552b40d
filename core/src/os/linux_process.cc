// What is of the process itself: messages, files that it writes, identity, signals.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

#include "os/kernel_release.h"
#include "os/linux.h"
#include "os/system_call.h"

namespace granary {

// From the random bytes that the kernel gives each process. Both words are mixed, because glibc
// uses them as they are.
uint64_t Linux::Secret() noexcept {
  uint64_t words[2] = {NowNanos(), ProcessId()};
  if (const unsigned long at = getauxval(AT_RANDOM); at != 0) {
    __builtin_memcpy(words, reinterpret_cast<const void*>(at), sizeof words);
  }
  const uint64_t mixed = (words[0] ^ (words[1] << 32 | words[1] >> 32)) * 0x9e3779b97f4a7c15u;
  return (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u ^ words[1];
}

int Linux::CreateFile(const char* path) noexcept {
  constexpr long kOwnerOnly = 0600;
  return static_cast<int>(Call(call::openat, AT_FDCWD, Bits(path),
                               O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kOwnerOnly));
}

bool Linux::WriteFile(int file, const char* from, size_t size) noexcept {
  while (size > 0) {
    const long done = Call(call::write, file, Bits(from), static_cast<long>(size));
    if (done == -EINTR) continue;
    if (done <= 0) return false;
    from += done;
    size -= static_cast<size_t>(done);
  }
  return true;
}

void Linux::WriteError(const char* text, size_t bytes) noexcept {
  Call(call::write, 2, Bits(text), static_cast<long>(bytes));
}

uint64_t Linux::ProcessId() noexcept { return static_cast<uint64_t>(Call(call::getpid)); }
uint32_t Linux::ThreadId() noexcept { return static_cast<uint32_t>(Call(call::gettid)); }

bool Linux::ReplaceFile(const char* path, const char* temporary, const FilePiece* pieces,
                        size_t count) noexcept {
  RemoveFile(temporary);  // removes a file that another process left there
  const long file = Call(call::openat, AT_FDCWD, Bits(temporary),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (Failed(file)) return false;
  long bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<long>(pieces[i].bytes);
  const bool written = Call(call::writev, file, Bits(pieces), static_cast<long>(count)) == bytes;
  Call(call::close, file);
  if (written && !Failed(Call(call::renameat2, AT_FDCWD, Bits(temporary), AT_FDCWD, Bits(path)))) {
    return true;
  }
  RemoveFile(temporary);
  return false;
}

void Linux::RemoveFile(const char* path) noexcept { Call(call::unlinkat, AT_FDCWD, Bits(path)); }

// The kernel copies the set before it finds that no such operation exists. Filters of system calls
// allow this call, because no thread starts without it.
bool Linux::IsReadable(const void* p) noexcept {
  constexpr long kNoSuchOperation = -1, kFault = -14;
  // A null pointer would mean that there is no set.
  return p != nullptr && Call(call::rt_sigprocmask, kNoSuchOperation, Bits(p), 0, 8) != kFault;
}

namespace {

constexpr uint64_t Bit(int signal) { return uint64_t{1} << (signal - 1); }
// The C libraries' own: cancellation and the setting of ids, which every thread has to answer.
constexpr uint64_t kLibrarySignals = Bit(32) | Bit(33) | Bit(34);
constexpr uint64_t kFaults =
    Bit(SIGSEGV) | Bit(SIGBUS) | Bit(SIGILL) | Bit(SIGFPE) | Bit(SIGTRAP) | Bit(SIGSYS);

}  // namespace

uint64_t Linux::BlockSignals() noexcept {
  const uint64_t blocked = ~(kLibrarySignals | kFaults);
  uint64_t before = 0;
  Call(call::rt_sigprocmask, SIG_BLOCK, Bits(&blocked), Bits(&before), sizeof before);
  return before;
}

void Linux::RestoreSignals(uint64_t before) noexcept {
  Call(call::rt_sigprocmask, SIG_SETMASK, Bits(&before), 0, sizeof before);
}

void Linux::Abort() noexcept { abort(); }

namespace {

constexpr uint32_t kRestartSignature =
#if defined(__aarch64__)
    0xd428bc00;
#else
    0x53053053;
#endif

constexpr long kRestartBytes = 32;

long Restart(void* area, long flags) {
  return Call(call::rseq, Bits(area), kRestartBytes, flags, kRestartSignature);
}

}  // namespace

bool Linux::RegisterForRestart(void* area) noexcept {
  constexpr long kRegisteredBefore = -16;
  const long result = Restart(area, 0);
  return result == 0 || result == kRegisteredBefore;
}

void Linux::UnregisterForRestart(void* area) noexcept {
  constexpr long kUnregister = 1;
  Restart(area, kUnregister);
}

// The kernel refuses to register a second time. A success shows that the thread was not registered,
// and is undone.
bool Linux::RegisteredForRestart(void* area) noexcept {
  constexpr long kNoSuchCall = -38;
  const long result = Restart(area, 0);
  if (result == 0) UnregisterForRestart(area);
  return result != 0 && result != kNoSuchCall;
}

#if defined(__aarch64__)
bool Linux::RestartsPreempted() noexcept {
  utsname system;
  return Failed(Call(call::uname, Bits(&system))) || granary::RestartsPreempted(system.release);
}
#else
bool Linux::RestartsPreempted() noexcept { return true; }
#endif

}  // namespace granary
