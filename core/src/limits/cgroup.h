// The memory cgroup of this process, version 1 or 2: how much memory its limits leave. The kernel
// describes the files in Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
#pragma once

#include <cstdint>

#include "limits/system_files.h"

namespace granary {

// Limit and use, in bytes, of the level of the hierarchy that leaves the least memory. `used` may
// exceed `limit`.
struct GroupRoom {
  uint64_t limit = 0;
  uint64_t used = 0;  // without the file cache, which the kernel drops first

  uint64_t Left() const { return limit > used ? limit - used : 0; }
};

class Cgroup {
 public:
  // The constructor puts `root` before every path. nullptr is the real file system.
  explicit constexpr Cgroup(const char* root = nullptr) : root_(root) {}

  // False if no level has a limit, or if no level can be read.
  bool Read(GroupRoom* room) noexcept;
  // The file of cgroup version 2 with the group's memory pressure; empty if there is none.
  const Path& PressureFile() noexcept;

 private:
  enum class Version : uint8_t { kUnknown, kNone, kOne, kTwo };

  void Find() noexcept;
  bool TakeLine(const char* line) noexcept;
  bool ReadLevel(GroupRoom* room) noexcept;
  bool ReadFile(const char* name, const char* key, uint64_t* value) noexcept;

  const char* root_;
  Version version_ = Version::kUnknown;
  char folder_[384] = {};  // mount point and path of the group
  size_t mount_ = 0;       // number of characters of the mount point
  size_t level_ = 0;       // number of characters of the level that is being read
  Path path_;
  FileText text_;
};

}  // namespace granary
