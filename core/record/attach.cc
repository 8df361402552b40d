#include "attach.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "next.h"
#include "recorder.h"
#include "slots.h"

// The recorder's own first and last byte.
extern "C" {
extern const char __ehdr_start __attribute__((visibility("hidden")));
extern const char _end __attribute__((visibility("hidden")));
}

namespace granary::record {

namespace {

constexpr size_t kSettingsBytes = 8192;

// NAME=value, each ends with 0, the last with two. Those of a process that was started with the
// recorder are a copy, as some programs overwrite their environment with a title; `granary record
// PID` reads it.
char given[kSettingsBytes];
extern "C" GRANARY_EXPORT char granary_record_settings[kSettingsBytes];
char granary_record_settings[kSettingsBytes];
bool attached, copied;

// False: they are too long.
bool KeepSettings(const char* from) {
  size_t length = 0;
  while (from[length] != 0) {
    length += strlen(from + length) + 1;
    if (length >= kSettingsBytes) return false;
  }
  memcpy(given, from, length + 1);
  return true;
}

void CopyEnvironment() {
  constexpr char kPrefix[] = "GRANARY_RECORD";
  size_t length = 0;
  for (char** row = environ; *row != nullptr; ++row) {
    const size_t bytes = strlen(*row) + 1;
    if (strncmp(*row, kPrefix, sizeof kPrefix - 1) != 0) continue;
    if (length + bytes >= kSettingsBytes) break;
    memcpy(granary_record_settings + length, *row, bytes);
    length += bytes;
  }
}

}  // namespace

const char* Setting(const char* name) {
  if (!attached && !copied) {
    copied = true;
    CopyEnvironment();
  }
  const size_t length = strlen(name);
  for (const char* at = attached ? given : granary_record_settings; *at != 0;
       at += strlen(at) + 1) {
    if (strncmp(at, name, length) == 0 && at[length] == '=') return at + length + 1;
  }
  return nullptr;
}

bool IsAttached() { return attached; }

bool IsOwn(const void* address) {
  const auto first = reinterpret_cast<uintptr_t>(&__ehdr_start);
  return reinterpret_cast<uintptr_t>(address) - first < reinterpret_cast<uintptr_t>(&_end) - first;
}

// What a call of the command does in the process; tool/internal/trace/record_inject.go has the same
// numbers.
enum class Attached : int { kRecords = 0, kNoAllocator = 1, kNoFile = 2, kNoSlots = 3 };

extern "C" GRANARY_EXPORT int granary_record_attach(const char* with) {
  if (!KeepSettings(with)) return static_cast<int>(Attached::kNoFile);
  attached = true;
  if (!HasNext() || next.malloc == nullptr) return static_cast<int>(Attached::kNoAllocator);
  if (!Begin()) return static_cast<int>(Attached::kNoFile);
  return static_cast<int>(RedirectCalls() ? Attached::kRecords : Attached::kNoSlots);
}

}  // namespace granary::record
