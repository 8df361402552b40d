// The table of mallctl's names (ctl.def), as characters and numbers without relocations.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary::jemalloc {

enum class CtlType : uint8_t {
  kVoid,
  kBool,
  kUnsigned,
  kU32,
  kSize,
  kSsize,
  kU64,
  kText,
  kPointer,
  kOfOption,
  kRaw
};
enum class Access : uint8_t { kR = 1, kW = 2, kRW = 3, kV = 4 };

enum class Handler : uint8_t {
  kVersion,
  kEpoch,
  kBackgroundThread,
  kMaxBackgroundThreads,
  kThreadArena,
  kThreadBytes,
  kThreadBytesAt,
  kThreadCacheEnabled,
  kThreadCacheMax,
  kThreadCacheFlush,
  kThreadPeak,
  kThreadPeakReset,
  kThreadIdle,
  kConstant,
  kEmptyText,
  kConfText,
  kOption,
  kCacheCreate,
  kCacheFlush,
  kCacheDestroy,
  kArenaInitialized,
  kArenaPurge,
  kArenaReset,
  kArenaDss,
  kArenaOversize,
  kArenaStored,
  kArenaDecay,
  kArenaHooks,
  kArenaName,
  kArenaCount,
  kDefaultDecay,
  kPage,
  kLargestCached,
  kCachedClasses,
  kBinShape,
  kExtentShape,
  kArenaCreate,
  kArenaLookup,
  kTotal,
  kBackground,
  kNothing,
  kSetOptions,
  kThreadProf,
  kThreadProfName,
  kProfHook,
  kMisuseHook,
  kProfThreadInit,
  kProfActive,
  kProfDump,
  kProfPrefix,
  kProfGdump,
  kProfReset,
  kProfInterval,
  kProfLgSample,
  kResetPeaks,
  kArenaFigure,
  kBinFigure,
  kExtentFigure,
  kActiveNow,
  kUtilizationQuery,
  kUtilizationBatch,
  kBatchAllocate,
  kArenaCreateExt,
};

struct CtlRow {
  uint16_t name;  // offset in the string of all names
  CtlType type;
  Access access;
  Handler handler;
  uint32_t argument;
};

inline constexpr size_t kMostComponents = 7;

// A name found in the table: its row, and the numbers of its indices and words.
struct Found {
  const CtlRow* row = nullptr;
  // per component: the value of an index, or the position of a word in its set
  size_t at[kMostComponents] = {};
};

// Finds a name; row is nullptr if there is none.
Found FindName(const char* name) noexcept;
Found FindMib(const size_t* mib, size_t length) noexcept;
// Writes one number per component, at most `most`. Returns how many, 0 if no name begins with
// `name`.
size_t MibOf(const char* name, size_t* mib, size_t most) noexcept;

}  // namespace granary::jemalloc
