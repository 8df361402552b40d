// Reads small files of the kernel as a whole, and the numbers in them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary {

// A path under `root`, built in place without allocating.
class Path {
 public:
  // False if the path did not fit. The path is then empty.
  bool Set(const char* root, const char* folder, const char* file) noexcept;
  const char* text() const { return text_; }

 private:
  char text_[512] = {};
};

// The beginning of a file, as a string. The object is large: make it a member, not a local
// variable.
class FileText {
 public:
  bool Read(const char* path) noexcept;
  const char* text() const { return text_; }

  // The number after `key` on the first line that starts with `key`; the first number of the file
  // if the key is empty. "max" reads as the largest number. False if there is no number.
  bool Number(const char* key, uint64_t* value) const noexcept;
  // The second number of the first line.
  bool Second(uint64_t* value) const noexcept;

 private:
  char text_[4096] = {};
};

}  // namespace granary
