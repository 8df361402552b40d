#include "reflect/control.h"

#include "arena/arena.h"
#include "heap/heap.h"
#include "reflect/measure.h"

namespace granary {

void Control::Serve() noexcept {
  if (busy_.exchange(true, std::memory_order_acquire)) return;
  const uint32_t number = requested_.load(std::memory_order_acquire);
  if (number != answered_.load(std::memory_order_relaxed)) {
    char argument[kMaxArgument];
    __builtin_memcpy(argument, argument_, sizeof argument);
    argument[sizeof argument - 1] = 0;
    value_ = 0;
    result_ = Run(command_, argument);
    answered_.store(number, std::memory_order_release);
  }
  busy_.store(false, std::memory_order_release);
}

Control::Result Control::Run(Command command, const char* argument) noexcept {
  switch (command) {
    case Command::kPurge:
      value_ = heap.Trim() + PurgeArenas();
      return Result::kDone;
    case Command::kSet: {
      const bool fine = options.Apply(argument, Source::kRunning);
      heap.ApplyOptions();
      return fine ? Result::kDone : Result::kRefused;
    }
    case Command::kFlush: {
      const Snapshot before = Measure();
      heap.FlushCaches();
      const Snapshot after = Measure();
      const uint64_t held = before.cached + before.depot, left = after.cached + after.depot;
      value_ = held > left ? held - left : 0;
      return Result::kDone;
    }
    case Command::kReset:
      heap.peaks().Reset();
      return Result::kDone;
    case Command::kProfileStart: {
      int64_t rate = options.prof_sample;
      const Piece text{argument, __builtin_strlen(argument)};
      if (text.size > 0 && (!ParseNumber(text, &rate) || rate <= 0)) return Result::kRefused;
      const Heap::Started started = heap.StartProfile(static_cast<uint64_t>(rate), 0);
      value_ = started == Heap::Started::kFresh;
      return started == Heap::Started::kRefused ? Result::kRefused : Result::kDone;
    }
    case Command::kProfileStop:
      heap.StopProfile();
      return Result::kDone;
    case Command::kProfileReset:
      return heap.ResetProfile() ? Result::kDone : Result::kRefused;
  }
  return Result::kUnknown;
}

void Control::Forget() noexcept {
  answered_.store(requested_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  busy_.store(false, std::memory_order_relaxed);
}

}  // namespace granary
