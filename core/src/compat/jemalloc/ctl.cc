#include "compat/jemalloc/ctl.h"

#include <errno.h>

#include "compat/jemalloc/caches.h"
#include "compat/jemalloc/ctl_arena.h"
#include "compat/jemalloc/ctl_prof.h"
#include "compat/jemalloc/ctl_raw.h"
#include "compat/jemalloc/ctl_table.h"
#include "compat/jemalloc/ctl_thread.h"
#include "compat/jemalloc/ctl_value.h"
#include "compat/jemalloc/figures.h"
#include "config/environment.h"
#include "config/jemalloc_options.h"
#include "granary/granary.h"
#include "heap/heap.h"
#include "inspection/measure.h"
#include "upkeep/upkeep.h"

extern "C" {
extern const char* malloc_conf;
extern const char* malloc_conf_2_conf_harder;
}

namespace granary::jemalloc {

const char kVersion[] = "5.3.1-0-g0 (Granary " GRANARY_VERSION ")";

namespace {

uint64_t max_background_threads = 1;

size_t SizeOf(CtlType type) {
  switch (type) {
    case CtlType::kBool:
      return 1;
    case CtlType::kUnsigned:
    case CtlType::kU32:
      return 4;
    default:
      return 8;
  }
}

CtlType TypeOfOption(size_t option) {
  switch (kJemallocOptions[option].type) {
    case OptionType::kBool:
      return CtlType::kBool;
    case OptionType::kUnsigned:
      return CtlType::kUnsigned;
    case OptionType::kChoice:
    case OptionType::kText:
      return CtlType::kText;
    default:
      return CtlType::kU64;
  }
}

CtlType OldType(const Found& f) {
  return f.row->type == CtlType::kOfOption ? TypeOfOption(f.at[1]) : f.row->type;
}

CtlType NewType(const Found& f) {
  const bool by_pointer =
      f.row->handler == Handler::kArenaCreate || f.row->handler == Handler::kArenaLookup;
  return by_pointer ? CtlType::kPointer : f.row->type;
}

int ReadOption(size_t option, uint64_t* out) {
  if (TypeOfOption(option) == CtlType::kText) return Put(Text(TextOf(options, option)), out);
  return Put(static_cast<uint64_t>(ValueOf(options, option)), out);
}

uint64_t ReadBackground(uint32_t which) {
  const bool runs = upkeep.BackgroundRuns();
  if (which == 0) return runs ? 1 : 0;
  if (which == 1) return upkeep.intervals();
  return runs && options.DecayMillis() > 0 ? static_cast<uint64_t>(options.DecayMillis()) * 500000
                                           : 0;
}

const char* ConfText(uint32_t which) {
  if (which == 0) return malloc_conf;
  return which == 1 ? Environment("MALLOC_CONF") : malloc_conf_2_conf_harder;
}

int ReadGeneral(const Found& f, uint64_t* out) {
  const uint32_t argument = f.row->argument;
  switch (f.row->handler) {
    case Handler::kVersion:
      return Put(Text(kVersion), out);
    case Handler::kEpoch:
      return Put(Epoch(), out);
    case Handler::kBackgroundThread:
      return Put(options.background_thread, out);
    case Handler::kMaxBackgroundThreads:
      return Put(max_background_threads, out);
    case Handler::kConstant:
      return Put(argument, out);
    case Handler::kEmptyText:
      return Put(Text(nullptr), out);
    case Handler::kConfText:
      return Put(Text(ConfText(argument)), out);
    case Handler::kOption:
      return ReadOption(f.at[1], out);
    case Handler::kCacheCreate: {
      unsigned id;
      return CreateCache(&id) ? Put(id, out) : EAGAIN;
    }
    case Handler::kPage:
      return Put(layers.pages().OsPage(), out);
    case Handler::kTotal:
      return Put(At(&Totals(), argument), out);
    case Handler::kBackground:
      return Put(ReadBackground(argument), out);
    case Handler::kActiveNow:
      return Put(layers.pages().used_bytes(), out);
    default:
      return kOtherReader;
  }
}

// `given` is the new value, for names whose old value depends on it.
int Read(const Found& f, uint64_t given, uint64_t* out) {
  const Handler handler = f.row->handler;
  const uint32_t argument = f.row->argument;
  if (const int error = ReadGeneral(f, out); error != kOtherReader) return error;
  if (const int error = ReadThread(handler, argument, out); error != kOtherReader) return error;
  if (const int error = ReadArena(f, given, out); error != kOtherReader) return error;
  return ReadProf(handler, argument, out);
}

int WriteGeneral(const Found& f, uint64_t value) {
  switch (f.row->handler) {
    case Handler::kEpoch:
      Refresh();
      return 0;
    case Handler::kBackgroundThread:
      options.Set(static_cast<size_t>(OptionId::background_thread), value != 0, Source::kRunning);
      return 0;
    case Handler::kMaxBackgroundThreads:
      max_background_threads = value;
      return 0;
    case Handler::kCacheFlush:
      return CacheExists(value) ? 0 : EFAULT;
    case Handler::kCacheDestroy:
      return DestroyCache(value) ? 0 : EFAULT;
    case Handler::kSetOptions:
      return granary_set_options(reinterpret_cast<const char*>(value)) == 0 ? 0 : EINVAL;
    case Handler::kMisuseHook:
      return SetMisuseHook(reinterpret_cast<MisuseHook>(value)), 0;
    default:
      return kOtherReader;
  }
}

int Write(const Found& f, uint64_t value) {
  const Handler handler = f.row->handler;
  if (const int error = WriteGeneral(f, value); error != kOtherReader) return error;
  if (const int error = WriteThread(handler, value); error != kOtherReader) return error;
  if (const int error = WriteArena(f, value); error != kOtherReader) return error;
  return WriteProf(handler, f.row->argument, value);
}

// Names without a value.
int CallVoid(const Found& f) {
  if (const int error = CallThread(f.row->handler); error != kOtherReader) return error;
  if (const int error = CallArena(f); error != kOtherReader) return error;
  switch (f.row->handler) {
    case Handler::kResetPeaks:
      upkeep.peaks().Reset();
      return 0;
    case Handler::kNothing:
      return 0;
    default:
      return ENOENT;
  }
}

// jemalloc accepts a buffer of the wrong size, too: it stores the bytes that fit and returns an
// error.
int Store(uint64_t value, size_t size, void* oldp, size_t* oldlenp) {
  if (oldp == nullptr || oldlenp == nullptr) return 0;
  const size_t copied = *oldlenp < size ? *oldlenp : size;
  __builtin_memcpy(oldp, &value, copied);
  if (*oldlenp == size) return 0;
  *oldlenp = copied;
  return EINVAL;
}

int AccessError(Access access, bool reads, bool writes) {
  if (access == Access::kV) return reads || writes ? EPERM : 0;
  if (reads && access == Access::kW) return EPERM;
  return writes && access == Access::kR ? EPERM : 0;
}

int Call(const Found& f, void* oldp, size_t* oldlenp, void* newp, size_t newlen) {
  if (f.row == nullptr) return ENOENT;
  heap::EnsureInit();
  if (f.row->type == CtlType::kRaw) return CallRaw(f, oldp, oldlenp, newp, newlen);
  if (f.row->handler == Handler::kArenaName)
    return CallArenaName(f.at[1], oldp, oldlenp, newp, newlen);
  const bool reads = oldp != nullptr && oldlenp != nullptr;
  const bool writes = newp != nullptr || newlen != 0;
  if (const int error = AccessError(f.row->access, reads, writes); error != 0) return error;
  if (f.row->type == CtlType::kVoid) return CallVoid(f);
  uint64_t value = 0;  // copied first, because oldp and newp may be the same buffer
  if (writes) {
    if (newp == nullptr || newlen != SizeOf(NewType(f))) return EINVAL;
    __builtin_memcpy(&value, newp, newlen);
  }
  if (writes && f.row->handler == Handler::kEpoch) Refresh();
  uint64_t old = 0;
  const bool acts =
      f.row->handler == Handler::kArenaCreate || f.row->handler == Handler::kCacheCreate;
  if (reads || acts || !writes) {
    if (const int error = Read(f, value, &old); error != 0) return error;
  }
  if (writes && f.row->handler != Handler::kEpoch) {
    if (const int error = Write(f, value); error != 0) return error;
  }
  return reads ? Store(old, SizeOf(OldType(f)), oldp, oldlenp) : 0;
}

}  // namespace

int Control(const char* name, void* oldp, size_t* oldlenp, void* newp, size_t newlen) noexcept {
  return Call(FindName(name), oldp, oldlenp, newp, newlen);
}

int ControlByMib(const size_t* mib, size_t length, void* oldp, size_t* oldlenp, void* newp,
                 size_t newlen) noexcept {
  return Call(FindMib(mib, length), oldp, oldlenp, newp, newlen);
}

int NameToMib(const char* name, size_t* mib, size_t* length) noexcept {
  const size_t count = MibOf(name, mib, *length);
  if (count == 0) return ENOENT;
  *length = count;
  return 0;
}

}  // namespace granary::jemalloc
