#include "limits/system_files.h"

#include <string.h>

#include "os/linux.h"

namespace granary {
namespace {

bool ReadDigits(const char* at, uint64_t* value) {
  if (*at < '0' || *at > '9') return false;
  uint64_t sum = 0;
  for (; *at >= '0' && *at <= '9'; ++at) sum = sum * 10 + static_cast<uint64_t>(*at - '0');
  *value = sum;
  return true;
}

}  // namespace

bool Path::Set(const char* root, const char* folder, const char* file) noexcept {
  size_t at = 0;
  for (const char* part : {root, folder, file}) {
    if (part == nullptr) continue;
    const size_t length = strlen(part);
    if (at + length >= sizeof text_) {
      text_[0] = 0;
      return false;
    }
    memcpy(text_ + at, part, length);
    at += length;
  }
  text_[at] = 0;
  return true;
}

bool FileText::Read(const char* path) noexcept {
  text_[0] = 0;
  const int file = path[0] != 0 ? Linux::OpenFile(path) : -1;
  if (file < 0) return false;
  const long bytes = Linux::ReadAndClose(file, text_, sizeof text_ - 1);
  text_[bytes > 0 ? bytes : 0] = 0;
  return bytes > 0;
}

bool FileText::Number(const char* key, uint64_t* value) const noexcept {
  const size_t length = strlen(key);
  const char* line = text_;
  while (strncmp(line, key, length) != 0) {
    line = strchr(line, '\n');
    if (line == nullptr) return false;
    ++line;
  }
  line += length;
  while (*line == ' ' || *line == '=') ++line;
  if (strncmp(line, "max", 3) == 0) return *value = ~uint64_t{0}, true;
  return ReadDigits(line, value);
}

bool FileText::Second(uint64_t* value) const noexcept {
  const char* const at = strchr(text_, ' ');
  return at != nullptr && ReadDigits(at + 1, value);
}

}  // namespace granary
