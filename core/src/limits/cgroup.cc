#include "limits/cgroup.h"

#include <string.h>

namespace granary {
namespace {

// cgroup version 1 writes a number just below 2^63 for "no limit"
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

// True for "4:cpu,memory:/path", and for "0::/path", the group of cgroup version 2.
bool HasMemory(const char* controllers, size_t length) {
  for (size_t i = 0; i < length;) {
    size_t end = i;
    while (end < length && controllers[end] != ',') ++end;
    if (end - i == 6 && memcmp(controllers + i, "memory", 6) == 0) return true;
    i = end + 1;
  }
  return false;
}

}  // namespace

// Reads a line of /proc/self/cgroup. True if the line decides which group applies.
bool Cgroup::TakeLine(const char* line) noexcept {
  const char* const controllers = strchr(line, ':');
  const char* const path = controllers != nullptr ? strchr(controllers + 1, ':') : nullptr;
  if (path == nullptr) return false;
  const auto length = static_cast<size_t>(path - controllers - 1);
  const bool one = HasMemory(controllers + 1, length);
  if (!one && (length > 0 || version_ == Version::kTwo)) return false;
  const char* const mount = one ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
  const size_t bytes = strcspn(path + 1, "\n");
  mount_ = strlen(mount);
  if (mount_ + bytes >= sizeof folder_) return false;
  memcpy(folder_, mount, mount_);
  memcpy(folder_ + mount_, path + 1, bytes);
  folder_[mount_ + (bytes == 1 ? 0 : bytes)] = 0;
  version_ = one ? Version::kOne : Version::kTwo;
  return one;
}

void Cgroup::Find() noexcept {
  version_ = Version::kNone;
  if (!path_.Set(root_, "/proc/self/cgroup", "") || !text_.Read(path_.text())) return;
  for (const char* line = text_.text(); line != nullptr && *line != 0;) {
    if (TakeLine(line)) break;
    line = strchr(line, '\n');
    if (line != nullptr) ++line;
  }
  if (version_ == Version::kNone) return;
  // In a container, the group of the process may be mounted at the top.
  level_ = strlen(folder_);
  uint64_t used;
  const char* const usage =
      version_ == Version::kOne ? "/memory.usage_in_bytes" : "/memory.current";
  if (!ReadFile(usage, "", &used)) folder_[mount_] = 0;
}

bool Cgroup::ReadFile(const char* name, const char* key, uint64_t* value) noexcept {
  const char saved = folder_[level_];
  folder_[level_] = 0;
  const bool read =
      path_.Set(root_, folder_, name) && text_.Read(path_.text()) && text_.Number(key, value);
  folder_[level_] = saved;
  return read;
}

bool Cgroup::ReadLevel(GroupRoom* room) noexcept {
  const bool one = version_ == Version::kOne;
  uint64_t high = kNoLimit, cache = 0;
  if (!ReadFile(one ? "/memory.limit_in_bytes" : "/memory.max", "", &room->limit)) return false;
  if (!one && ReadFile("/memory.high", "", &high) && high < room->limit) room->limit = high;
  if (room->limit >= kNoLimit) return false;
  if (!ReadFile(one ? "/memory.usage_in_bytes" : "/memory.current", "", &room->used)) return false;
  // reading the file cache costs more system calls, and cannot change the result yet
  if (room->used < room->limit / 2) return true;
  if (ReadFile("/memory.stat", one ? "total_inactive_file" : "inactive_file", &cache)) {
    room->used -= cache < room->used ? cache : room->used;
  }
  return true;
}

bool Cgroup::Read(GroupRoom* room) noexcept {
  if (version_ == Version::kUnknown) Find();
  if (version_ == Version::kNone) return false;
  bool limited = false;
  level_ = strlen(folder_);
  for (;;) {
    GroupRoom here;
    if (ReadLevel(&here) && (!limited || here.Left() < room->Left())) {
      *room = here;
      limited = true;
    }
    if (level_ <= mount_) return limited;
    do --level_;
    while (level_ > mount_ && folder_[level_] != '/');
  }
}

const Path& Cgroup::PressureFile() noexcept {
  if (version_ == Version::kUnknown) Find();
  path_.Set(root_, version_ == Version::kTwo ? folder_ : "/proc/pressure/memory",
            version_ == Version::kTwo ? "/memory.pressure" : "");
  return path_;
}

}  // namespace granary
