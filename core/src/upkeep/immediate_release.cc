// What goes back at once instead of at the end of its decay: for a limit, and to pay for growth.
#include "layers/layers.h"
#include "upkeep/upkeep.h"

namespace granary {
namespace {

constexpr size_t kUrgent = 2 * kMiB;  // above the ceiling
constexpr size_t kConcession = kMiB;  // what a heap that has nothing to give may grow by then
constexpr size_t kPaySlabs = 16;      // looked at for each step of a payment

}  // namespace

void Upkeep::CallThresholds() noexcept { thresholds_.Check(layers.HeldBytes()); }

void Upkeep::LookAtLimits() noexcept {
  look_at_.store(Linux::NowMillis() + kLookMillis, std::memory_order_relaxed);
  limits_.Look(layers.ResidentBytes());
  const size_t ceiling = limits_.ceiling();
  layers.pages().SetHugeBelow(ceiling == Limits::kNone ? ceiling : ceiling / 4);
  layers.pages().SetMost(options.hard_limit > 0 ? static_cast<size_t>(options.hard_limit)
                                                : ~size_t{0});
}

// The helper looks with each of its windows; where these are long or there is none, the slow paths.
void Upkeep::LookIfDue(uint64_t now) noexcept {
  if (now < look_at_.load(std::memory_order_relaxed) || !running_.TryLock()) return;
  LookAtLimits();
  running_.Unlock();
}

void Upkeep::MakeRoom(size_t bytes) noexcept {
  if (limit_polls_.fetch_add(1, std::memory_order_relaxed) % kPollsPerLook == 0)
    LookIfDue(Linux::NowMillis());
  const size_t ceiling = limits_.ceiling();
  if (layers.HeldBytes() + bytes <= ceiling || layers.ResidentBytes() + bytes <= ceiling) return;
  // Far above it, waiting for whoever releases now is better than what comes next.
  if (layers.ResidentBytes() + bytes > ceiling + kUrgent) {
    running_.Lock();
  } else if (!running_.TryLock()) {
    return;
  }
  ReleaseAbove(bytes);
  running_.Unlock();
}

void Upkeep::ReleaseAbove(size_t bytes) noexcept {
  const size_t ceiling = limits_.ceiling();
  const size_t wanted = layers.ResidentBytes() + bytes;
  if (wanted <= ceiling) return;
  const size_t excess = wanted - ceiling;
  size_t given = layers.pages().Release(excess);
  if (given < excess) given += ReleaseFromSlabs(excess - given, ~size_t{0});
  squeezed_.fetch_add(given, std::memory_order_relaxed);
  // What is in use cannot be given back: a heap that needs more than it should have gets it, and
  // the system decides.
  if (given < excess) limits_.Raise(ceiling + excess - given + kConcession);
}

// What is held, without the pages that payments took out of slabs.
size_t Upkeep::Level() noexcept {
  const size_t held = layers.HeldBytes();
  const size_t credit = credit_.load(std::memory_order_relaxed);
  return held > credit ? held - credit : 0;
}

// How far the heap has risen above what it held when the window began, or was paid for since.
size_t Upkeep::UnpaidGrowth() noexcept {
  const size_t level = Level();
  const size_t paid = paid_.load(std::memory_order_relaxed);
  const size_t base = paid > kFreeGrowth ? paid : kFreeGrowth;
  return level > base ? level - base : 0;
}

// Free pages of slabs, from the sizes with the most of them, at once.
size_t Upkeep::ReleaseFromSlabs(size_t bytes, size_t looks) noexcept {
  size_t done = 0;
  for (; done < bytes && looks > 0; --looks) {
    const SizeClass c = layers.central().Idlest();
    if (layers.central().FreeBytes(c) < kPayStep) break;
    done += layers.central().ReleasePages(c, 1, Central<Linux>::Patience::kNone);
  }
  return done;
}

// A heap that rises while free pages lie in slabs of sizes that nobody asks for now, or in spans
// that nobody wanted all through the window, gives as much of these back at once instead of at the
// end of their decay: it grows no further than it must. Called with running_ held.
void Upkeep::PayForGrowth(size_t most) noexcept {
  const size_t unpaid = UnpaidGrowth();
  const size_t due = unpaid < most ? unpaid : most;
  const size_t slabs = ReleaseFromSlabs(due, due / kPayStep * kPaySlabs);
  credit_.fetch_add(slabs, std::memory_order_relaxed);
  size_t done = slabs;
  if (done < due) {
    const size_t idle = layers.pages().IdleBytes();
    done += layers.pages().Release(due - done < idle ? due - done : idle);
  }
  // What is not there cannot be given: the rest is forgiven.
  if (done < due) paid_.store(Level(), std::memory_order_relaxed);
}

}  // namespace granary
