#include "compat/jemalloc/ctl_arena.h"

#include <errno.h>

#include "arena/arenas.h"
#include "arena/shared_regions.h"
#include "compat/jemalloc/arena_index.h"
#include "compat/jemalloc/ctl_value.h"
#include "compat/jemalloc/figures.h"
#include "config/options.h"
#include "layers/layers.h"

namespace granary::jemalloc {
namespace {

constexpr uint64_t kMostSigned = ~uint64_t{0} >> 1;
uint64_t stored[2] = {0, kMostSigned};

int ReadBinShape(size_t bin, uint32_t which, uint64_t* out) {
  if (bin >= kBins) return ENOENT;
  const SlabShape& shape = kSlabShape[bin + 1];
  const uint64_t shapes[] = {BinSize(bin), shape.objects, shape.bytes, 1};
  return Put(shapes[which], out);
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
  return Put(At(figures, f.row->argument), out);
}

uint64_t CachedClasses() {
  if (!options.Caches()) return 0;
  uint64_t count = 0;
  for (SizeClass c = 1; c < kNumClasses; ++c)
    count += kClassSize[c] <= static_cast<size_t>(options.cache_max);
  return count;
}

bool IsMain(size_t arena) { return arena == 0 || arena == kAllArenas; }

// The decay time of an arena. For 0 and "all", the heap's decay time.
int64_t* DecayAt(size_t arena, bool muzzy) {
  if (IsMain(arena)) return muzzy ? &options.muzzy_decay_ms : &options.dirty_decay_ms;
  return DecayOf(arena, muzzy);
}

int ReadArenaDecay(size_t arena, bool muzzy, uint64_t* out) {
  const int64_t* const decay = DecayAt(arena, muzzy);
  return decay == nullptr ? EFAULT : Put(static_cast<uint64_t>(*decay), out);
}

int WriteArenaDecay(size_t arena, bool muzzy, uint64_t value) {
  int64_t* const decay = DecayAt(arena, muzzy);
  if (decay == nullptr || static_cast<int64_t>(value) < -1) return EFAULT;
  const int64_t most = kOptions[static_cast<size_t>(OptionId::dirty_decay_ms)].highest;
  *decay = static_cast<int64_t>(value) > most ? most : static_cast<int64_t>(value);
  if (IsMain(arena)) {
    const OptionId row = muzzy ? OptionId::muzzy_decay_ms : OptionId::dirty_decay_ms;
    options.source[static_cast<size_t>(row)] = Source::kRunning;
  }
  return 0;
}

int ReadArenaHooks(size_t arena, uint64_t* out) {
  if (arena == 0) return Put(AddressOf(HooksOfSharedHeap()), out);
  ExtentHooks** const hooks = HooksOf(arena);
  return hooks == nullptr ? EFAULT : Put(AddressOf(*hooks), out);
}

int ReadArenaLookup(uint64_t pointer, uint64_t* out) {
  unsigned index;
  if (!FindArena(reinterpret_cast<const void*>(pointer), &index)) return EINVAL;
  return Put(index, out);
}

int WriteHooks(size_t arena, uint64_t hooks) {
  auto* const given = reinterpret_cast<ExtentHooks*>(hooks);
  if (arena == 0 && hooks != 0) return SetHooksOfSharedHeap(given) ? 0 : EAGAIN;
  ExtentHooks** const at = HooksOf(arena);
  if (at == nullptr || hooks == 0) return EFAULT;
  *at = given;
  return 0;
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

}  // namespace

int ReadArena(const Found& f, uint64_t given, uint64_t* out) noexcept {
  const uint32_t argument = f.row->argument;
  switch (f.row->handler) {
    case Handler::kArenaInitialized:
      return Put(f.at[1] == kAllArenas || ArenaExists(f.at[1]), out);
    case Handler::kArenaDss:
      return Put(Text("disabled"), out);
    case Handler::kArenaOversize:
      return Put(IsMain(f.at[1]) ? static_cast<uint64_t>(options.oversize_threshold) : stored[0],
                 out);
    case Handler::kArenaStored:
      return Put(stored[argument], out);
    case Handler::kArenaDecay:
      return ReadArenaDecay(f.at[1], argument != 0, out);
    case Handler::kDefaultDecay:
      return ReadArenaDecay(0, argument != 0, out);
    case Handler::kArenaHooks:
      return ReadArenaHooks(f.at[1], out);
    case Handler::kArenaCount:
      return Put(ArenaCount(), out);
    case Handler::kLargestCached:
      return Put(options.Caches() ? static_cast<uint64_t>(options.cache_max) : 0, out);
    case Handler::kCachedClasses:
      return Put(CachedClasses(), out);
    case Handler::kBinShape:
      return ReadBinShape(f.at[2], argument, out);
    case Handler::kExtentShape:
      return f.at[2] < kExtents ? Put(ExtentSize(f.at[2]), out) : ENOENT;
    case Handler::kArenaCreate: {
      unsigned index;
      const int error = CreateArena(reinterpret_cast<ExtentHooks*>(given), &index);
      return error != 0 ? error : Put(index, out);
    }
    case Handler::kArenaLookup:
      return ReadArenaLookup(given, out);
    case Handler::kArenaFigure:
    case Handler::kBinFigure:
    case Handler::kExtentFigure:
      return ReadFigure(f, out);
    default:
      return kOtherReader;
  }
}

int WriteArena(const Found& f, uint64_t value) noexcept {
  const uint32_t argument = f.row->argument;
  switch (f.row->handler) {
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
    case Handler::kArenaCreate:
    case Handler::kArenaLookup:
      return 0;  // Read has used the value
    default:
      return kOtherReader;
  }
}

int CallArena(const Found& f) noexcept {
  switch (f.row->handler) {
    case Handler::kArenaPurge:
      return PurgeOf(f.at[1], f.row->argument != 0);
    case Handler::kArenaReset:
      return ResetArena(f.at[1], f.row->argument != 0);
    default:
      return kOtherReader;
  }
}

}  // namespace granary::jemalloc
