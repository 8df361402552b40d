#include "inspection/control.h"

#include "arena/arenas.h"
#include "config/apply_text.h"
#include "layers/class_figures.h"
#include "profiler/profiler.h"
#include "upkeep/apply_options.h"
#include "upkeep/trim.h"
#include "upkeep/upkeep.h"

namespace granary {
namespace {

using Command = Requests::Command;
using Result = Requests::Result;

Result Flush(uint64_t* value) {
  const uint64_t held = CachedBytes();
  FlushCaches();
  const uint64_t left = CachedBytes();
  *value = held > left ? held - left : 0;
  return Result::kDone;
}

Result StartProfile(const char* argument, uint64_t* value) {
  int64_t rate = options.prof_sample;
  const Piece text{argument, __builtin_strlen(argument)};
  if (text.size > 0 && (!ParseNumber(text, &rate) || rate <= 0)) return Result::kRefused;
  const profiler::Started started = profiler::Start(static_cast<uint64_t>(rate), 0);
  *value = started == profiler::Started::kFresh;
  return started == profiler::Started::kRefused ? Result::kRefused : Result::kDone;
}

Result Run(Command command, const char* argument, uint64_t* value) {
  switch (command) {
    case Command::kPurge:
      *value = Trim() + PurgeArenas();
      return Result::kDone;
    case Command::kSet: {
      const bool fine = ApplyText(options, argument, Source::kRunning);
      ApplyOptions();
      profiler::ApplyGuardSample();
      return fine ? Result::kDone : Result::kRefused;
    }
    case Command::kFlush:
      return Flush(value);
    case Command::kReset:
      upkeep.peaks().Reset();
      return Result::kDone;
    case Command::kProfileStart:
      return StartProfile(argument, value);
    case Command::kProfileStop:
      profiler::Stop();
      return Result::kDone;
    case Command::kProfileReset:
      return profiler::Reset() ? Result::kDone : Result::kRefused;
  }
  return Result::kUnknown;
}

}  // namespace

void Serve(Requests& requests) noexcept { requests.Answer(Run); }

}  // namespace granary
