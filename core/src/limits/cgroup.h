// The memory cgroup of this process, version 1 or 2: how much room its limits leave.
// Files: Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst of the kernel.
#pragma once

#include <cstdint>

#include "limits/system_files.h"

namespace granary {

// Of the level of the hierarchy that leaves the least: bytes, and used <= limit is not promised.
struct GroupRoom {
  uint64_t limit = 0;
  uint64_t used = 0;  // without the file cache that the kernel would drop first

  uint64_t Left() const { return limit > used ? limit - used : 0; }
};

class Cgroup {
 public:
  // `root` stands before every path; without one, it is the system itself.
  explicit constexpr Cgroup(const char* root = nullptr) : root_(root) {}

  // False if no level has a limit, or none can be read.
  bool Read(GroupRoom* room) noexcept;
  // The file of version 2 that tells the group's memory pressure; empty if there is none.
  const Path& PressureFile() noexcept;

 private:
  enum class Version : uint8_t { kUnknown, kNone, kOne, kTwo };

  void Find() noexcept;
  bool TakeLine(const char* line) noexcept;
  bool ReadLevel(GroupRoom* room) noexcept;
  bool ReadFile(const char* name, const char* key, uint64_t* value) noexcept;

  const char* root_;
  Version version_ = Version::kUnknown;
  char folder_[384] = {};  // of the group: mount point and path
  size_t mount_ = 0;       // characters of the mount point
  size_t level_ = 0;       // characters of the level that is being read
  Path path_;
  FileText text_;
};

}  // namespace granary
