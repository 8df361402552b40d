#include "limits/limits.h"

#include "config/options.h"
#include "os/linux.h"

namespace granary {
namespace {

// Shares of the limit, as divisors: the margin that stays free below the limit, the free memory
// below which memory is scarce, and the free memory above which it is no longer scarce.
constexpr uint64_t kMargin = 10, kScarce = 16, kAmple = 8;
// Percent of the last ten seconds in which some task waited for memory.
constexpr uint64_t kStallsFrom = 10, kStallsTo = 2;

size_t Least(size_t a, size_t b) { return a < b ? a : b; }

}  // namespace

// Resident bytes of the process; the largest number if they cannot be read.
size_t Limits::ResidentSet() noexcept {
  Path path;
  uint64_t pages;
  // The resident set is the second number, after the first blank.
  if (!path.Set(root_, "/proc/self/statm", "") || !text_.Read(path.text()) ||
      !text_.Second(&pages)) {
    return kNone;
  }
  return pages * Linux::PageSize();
}

size_t Limits::GroupCeiling(size_t held) noexcept {
  if (!options.follow_cgroup) {
    scarce_.Set(false, true);
    return kNone;
  }
  if (skip_ > 0) {
    --skip_;
    return kNone;
  }
  GroupRoom room;
  if (!group_.Read(&room)) {
    skip_ = kRefreshesToSkip;
    scarce_.Set(false, true);
    return kNone;
  }
  scarce_.Set(room.Left() <= room.limit / kScarce, room.Left() >= room.limit / kAmple);
  // The heap may take the room that is left in the group, except the margin. The smaller of held
  // and RSS counts: held memory may not be resident.
  const uint64_t ceiling = Least(held, ResidentSet()) + room.Left();
  // Never zero, because zero stands for no ceiling.
  return ceiling > room.limit / kMargin ? ceiling - room.limit / kMargin : 1;
}

bool Limits::PressureIsHigh() noexcept {
  uint64_t percent = 0;
  if (!options.follow_pressure || !text_.Read(group_.PressureFile().text()) ||
      !text_.Number("some avg10", &percent)) {
    return stalled_.Set(false, true);
  }
  return stalled_.Set(percent >= kStallsFrom, percent < kStallsTo);
}

void Limits::Refresh(size_t held) noexcept {
  size_t ceiling = GroupCeiling(held);
  for (const int64_t given : {options.soft_limit, options.hard_limit}) {
    if (given > 0) ceiling = Least(ceiling, static_cast<size_t>(given));
  }
  const bool stalled = PressureIsHigh();
  ceiling_.store(ceiling, std::memory_order_relaxed);
  under_pressure_.store(stalled || scarce_.on(), std::memory_order_relaxed);
}

}  // namespace granary
