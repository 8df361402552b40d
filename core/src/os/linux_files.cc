// Files that the library reads: what core/simulate replaces. It writes files in linux_process.cc.
#include <fcntl.h>

#include "os/linux.h"
#include "os/system_call.h"

namespace granary {

int Linux::OpenFile(const char* path) noexcept {
  return static_cast<int>(Call(call::openat, AT_FDCWD, Bits(path), O_RDONLY | O_CLOEXEC));
}

long Linux::ReadAndClose(int file, char* to, size_t size) noexcept {
  const long bytes = Call(call::read, file, Bits(to), static_cast<long>(size));
  Call(call::close, file);
  return bytes;
}

long Linux::ReadFile(int file, char* to, size_t size) noexcept {
  return Call(call::read, file, Bits(to), static_cast<long>(size));
}

long Linux::ReadFileAt(int file, void* to, size_t size, uint64_t at) noexcept {
  return Call(call::pread64, file, Bits(to), static_cast<long>(size), static_cast<long>(at));
}

void Linux::CloseFile(int file) noexcept {
  if (file >= 0) Call(call::close, file);
}

}  // namespace granary
