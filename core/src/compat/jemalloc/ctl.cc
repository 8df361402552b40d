#include "compat/jemalloc/ctl.h"

#include <errno.h>

#include "arena/arenas.h"
#include "arena/shared_regions.h"
#include "compat/jemalloc/arena_index.h"
#include "compat/jemalloc/caches.h"
#include "compat/jemalloc/ctl_prof.h"
#include "compat/jemalloc/ctl_raw.h"
#include "compat/jemalloc/ctl_table.h"
#include "compat/jemalloc/figures.h"
#include "config/environment.h"
#include "config/jemalloc_options.h"
#include "front/thread_settings.h"
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
uint64_t thread_cache_max;
uint64_t stored[2] = {0, ~uint64_t{0} >> 1};

uint64_t Text(const char* text) { return AddressOf(text == nullptr ? "" : text); }

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

int Give(uint64_t value, uint64_t* out) {
  *out = value;
  return 0;
}

int ReadOption(size_t option, uint64_t* out) {
  if (TypeOfOption(option) == CtlType::kText) return Give(Text(TextOf(options, option)), out);
  return Give(static_cast<uint64_t>(ValueOf(options, option)), out);
}

int ReadBinShape(size_t bin, uint32_t which, uint64_t* out) {
  if (bin >= kBins) return ENOENT;
  const SlabShape& shape = kSlabShape[bin + 1];
  const uint64_t shapes[] = {BinSize(bin), shape.objects, shape.bytes, 1};
  return Give(shapes[which], out);
}

int ReadFigure(const Found& f, uint64_t* out) {
  const ArenaFigures* const arena = FiguresOf(f.at[2]);
  if (arena == nullptr) return ENOENT;
  const void* figures = arena;
  if (f.row->handler == Handler::kBinFigure) {
    if (f.at[4] >= kBins) return ENOENT;
    figures = &arena->bins[f.at[4]];
  } else if (f.row->handler == Handler::kExtentFigure) {
    if (f.at[4] >= kExtents) return ENOENT;
    figures = &arena->lextents[f.at[4]];
  }
  return Give(At(figures, f.row->argument), out);
}

uint64_t CachedClasses() {
  if (!options.Caches()) return 0;
  uint64_t count = 0;
  for (SizeClass c = 1; c < kNumClasses; ++c)
    count += kClassSize[c] <= static_cast<size_t>(options.cache_max);
  return count;
}

uint64_t ReadBackground(uint32_t which) {
  const bool runs = upkeep.BackgroundRuns();
  if (which == 0) return runs ? 1 : 0;
  if (which == 1) return upkeep.intervals();
  return runs && options.DecayMillis() > 0 ? static_cast<uint64_t>(options.DecayMillis()) * 500000
                                           : 0;
}

uint64_t ReadThreadBytes(uint32_t which) {
  UseThreadSettings();
  return which == 0 ? thread_settings.allocated : thread_settings.deallocated;
}

const char* ConfText(uint32_t which) {
  if (which == 0) return malloc_conf;
  return which == 1 ? Environment("MALLOC_CONF") : malloc_conf_2_conf_harder;
}

constexpr uint64_t kMostSigned = ~uint64_t{0} >> 1;

bool IsMain(size_t arena) { return arena == 0 || arena == kAllArenas; }

// The decay time of an arena. For 0 and "all", the heap's decay time.
int64_t* DecayAt(size_t arena, bool muzzy) {
  if (arena == 0 || arena == kAllArenas)
    return muzzy ? &options.muzzy_decay_ms : &options.dirty_decay_ms;
  return DecayOf(arena, muzzy);
}

int ReadArenaDecay(size_t arena, bool muzzy, uint64_t* out) {
  const int64_t* const decay = DecayAt(arena, muzzy);
  return decay == nullptr ? EFAULT : Give(static_cast<uint64_t>(*decay), out);
}

int WriteArenaDecay(size_t arena, bool muzzy, uint64_t value) {
  int64_t* const decay = DecayAt(arena, muzzy);
  if (decay == nullptr || static_cast<int64_t>(value) < -1) return EFAULT;
  const int64_t most = kOptions[static_cast<size_t>(OptionId::dirty_decay_ms)].highest;
  *decay = static_cast<int64_t>(value) > most ? most : static_cast<int64_t>(value);
  if (arena == 0 || arena == kAllArenas) {
    const OptionId row = muzzy ? OptionId::muzzy_decay_ms : OptionId::dirty_decay_ms;
    options.source[static_cast<size_t>(row)] = Source::kRunning;
  }
  return 0;
}

int ReadArenaHooks(size_t arena, uint64_t* out) {
  if (arena == 0) return Give(AddressOf(HooksOfSharedHeap()), out);
  ExtentHooks** const hooks = HooksOf(arena);
  return hooks == nullptr ? EFAULT : Give(AddressOf(*hooks), out);
}

int ReadArenaLookup(uint64_t pointer, uint64_t* out) {
  unsigned index;
  if (!FindArena(reinterpret_cast<const void*>(pointer), &index)) return EINVAL;
  return Give(index, out);
}

// `given` is the new value, for names whose old value depends on it.
int Read(const Found& f, uint64_t given, uint64_t* out) {
  const uint32_t argument = f.row->argument;
  switch (f.row->handler) {
    case Handler::kVersion:
      return Give(Text(kVersion), out);
    case Handler::kEpoch:
      return Give(Epoch(), out);
    case Handler::kBackgroundThread:
      return Give(options.background_thread, out);
    case Handler::kMaxBackgroundThreads:
      return Give(max_background_threads, out);
    case Handler::kThreadArena:
      return Give(HasThreadSettings() ? thread_settings.arena : 0, out);
    case Handler::kThreadBytes:
      return Give(ReadThreadBytes(argument), out);
    case Handler::kThreadBytesAt:
      UseThreadSettings();
      return Give(
          AddressOf(argument == 0 ? &thread_settings.allocated : &thread_settings.deallocated),
          out);
    case Handler::kThreadCacheEnabled:
      return Give(options.Caches() && !(HasThreadSettings() && thread_settings.uncached), out);
    case Handler::kThreadCacheMax:
      return Give(
          thread_cache_max != 0 ? thread_cache_max : static_cast<uint64_t>(options.cache_max), out);
    case Handler::kThreadPeak:
      UseThreadSettings();
      return Give(thread_settings.peak, out);
    case Handler::kConstant:
      return Give(argument, out);
    case Handler::kEmptyText:
      return Give(Text(nullptr), out);
    case Handler::kConfText:
      return Give(Text(ConfText(argument)), out);
    case Handler::kOption:
      return ReadOption(f.at[1], out);
    case Handler::kCacheCreate: {
      unsigned id;
      return CreateCache(&id) ? Give(id, out) : EAGAIN;
    }
    case Handler::kArenaInitialized:
      return Give(f.at[1] == kAllArenas || ArenaExists(f.at[1]), out);
    case Handler::kArenaDss:
      return Give(Text("disabled"), out);
    case Handler::kArenaOversize:
      return Give(IsMain(f.at[1]) ? static_cast<uint64_t>(options.oversize_threshold) : stored[0],
                  out);
    case Handler::kArenaStored:
      return Give(stored[argument], out);
    case Handler::kArenaDecay:
      return ReadArenaDecay(f.at[1], argument != 0, out);
    case Handler::kDefaultDecay:
      return ReadArenaDecay(0, argument != 0, out);
    case Handler::kArenaHooks:
      return ReadArenaHooks(f.at[1], out);
    case Handler::kArenaCount:
      return Give(ArenaCount(), out);
    case Handler::kPage:
      return Give(layers.pages().OsPage(), out);
    case Handler::kLargestCached:
      return Give(options.Caches() ? static_cast<uint64_t>(options.cache_max) : 0, out);
    case Handler::kCachedClasses:
      return Give(CachedClasses(), out);
    case Handler::kBinShape:
      return ReadBinShape(f.at[2], argument, out);
    case Handler::kExtentShape:
      return f.at[2] < kExtents ? Give(ExtentSize(f.at[2]), out) : ENOENT;
    case Handler::kArenaCreate: {
      unsigned index;
      const int error = CreateArena(reinterpret_cast<ExtentHooks*>(given), &index);
      return error != 0 ? error : Give(index, out);
    }
    case Handler::kArenaLookup:
      return ReadArenaLookup(given, out);
    case Handler::kTotal:
      return Give(At(&Totals(), argument), out);
    case Handler::kBackground:
      return Give(ReadBackground(argument), out);
    case Handler::kArenaFigure:
    case Handler::kBinFigure:
    case Handler::kExtentFigure:
      return ReadFigure(f, out);
    case Handler::kActiveNow:
      return Give(layers.pages().used_bytes(), out);
    default:
      return ReadProf(f.row->handler, argument, out);
  }
}

int WriteThreadArena(uint64_t arena) {
  if (!ArenaExists(arena)) return EFAULT;
  if (arena == 0 && !HasThreadSettings()) return 0;
  UseThreadSettings();
  thread_settings.arena = static_cast<uint32_t>(arena);
  return 0;
}

int WriteThreadCache(bool enabled) {
  if (enabled && !HasThreadSettings()) return 0;
  UseThreadSettings();
  thread_settings.uncached = !enabled;
  return 0;
}

int WriteHooks(size_t arena, uint64_t hooks) {
  auto* const given = reinterpret_cast<ExtentHooks*>(hooks);
  if (arena == 0 && hooks != 0) return SetHooksOfSharedHeap(given) ? 0 : EAGAIN;
  ExtentHooks** const at = HooksOf(arena);
  if (at == nullptr || hooks == 0) return EFAULT;
  *at = given;
  return 0;
}

int Write(const Found& f, uint64_t value) {
  const uint32_t argument = f.row->argument;
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
    case Handler::kThreadArena:
      return WriteThreadArena(value);
    case Handler::kThreadCacheEnabled:
      return WriteThreadCache(value != 0);
    case Handler::kThreadCacheMax:
      thread_cache_max = value;
      return 0;
    case Handler::kCacheFlush:
      return CacheExists(value) ? 0 : EFAULT;
    case Handler::kCacheDestroy:
      return DestroyCache(value) ? 0 : EFAULT;
    case Handler::kArenaDss:
      return Piece{reinterpret_cast<const char*>(value),
                   __builtin_strlen(reinterpret_cast<const char*>(value))}
                     .Is("disabled")
                 ? 0
                 : EFAULT;
    case Handler::kArenaOversize:
      if (!IsMain(f.at[1])) return stored[0] = value, 0;
      options.Set(static_cast<size_t>(OptionId::oversize_threshold),
                  static_cast<int64_t>(value > kMostSigned ? kMostSigned : value),
                  Source::kRunning);
      return 0;
    case Handler::kArenaStored:
      stored[argument] = value;
      return 0;
    case Handler::kArenaDecay:
      return WriteArenaDecay(f.at[1], argument != 0, value);
    case Handler::kDefaultDecay:
      return WriteArenaDecay(0, argument != 0, value);
    case Handler::kArenaHooks:
      return WriteHooks(f.at[1], value);
    case Handler::kSetOptions:
      return granary_set_options(reinterpret_cast<const char*>(value)) == 0 ? 0 : EINVAL;
    case Handler::kMisuseHook:
      return SetMisuseHook(reinterpret_cast<MisuseHook>(value)), 0;
    case Handler::kArenaCreate:
    case Handler::kArenaLookup:
      return 0;  // the part of the value that Read has read
    default:
      return WriteProf(f.row->handler, argument, value);
  }
}

int PurgeOf(size_t arena, bool all) {
  if (arena == kDestroyedArenas) return 0;
  if (arena != kAllArenas && arena != ArenaCount() && !ArenaExists(arena)) return EFAULT;
  if (arena == kAllArenas || arena == ArenaCount()) {
    for (size_t i = 0; i < ArenaCount(); ++i) PurgeArena(i, all);
  } else {
    PurgeArena(arena, all);
  }
  return 0;
}

int Do(const Found& f) {
  switch (f.row->handler) {
    case Handler::kThreadCacheFlush:
      heap::FlushCaches();
      return 0;
    case Handler::kThreadPeakReset:
      UseThreadSettings();
      thread_settings.peak = 0;
      thread_settings.peak_from = thread_settings.allocated - thread_settings.deallocated;
      return 0;
    case Handler::kThreadIdle:
      heap::FlushCaches();
      PurgeArena(HasThreadSettings() ? thread_settings.arena : 0, false);
      return 0;
    case Handler::kArenaPurge:
      return PurgeOf(f.at[1], f.row->argument != 0);
    case Handler::kArenaReset:
      return ResetArena(f.at[1], f.row->argument != 0);
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
  if (f.row->type == CtlType::kVoid) return Do(f);
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
