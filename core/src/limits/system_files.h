// Small files of the kernel, read whole, and the numbers in them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary {

// A path under `root`, built in place: nothing here allocates.
class Path {
 public:
  // False if it did not fit; then it is empty.
  bool Set(const char* root, const char* folder, const char* file) noexcept;
  const char* text() const { return text_; }

 private:
  char text_[512] = {};
};

// What fits of a file, as a string. Large: belongs in an object of its owner, not on a stack.
class FileText {
 public:
  bool Read(const char* path) noexcept;
  const char* text() const { return text_; }

  // The number behind the first line that starts with `key`; the first number if the key is empty.
  // "max" reads as the largest number. False if there is none.
  bool Number(const char* key, uint64_t* value) const noexcept;
  // The second number of the first line.
  bool Second(uint64_t* value) const noexcept;

 private:
  char text_[4096] = {};
};

}  // namespace granary
