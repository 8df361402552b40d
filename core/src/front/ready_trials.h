// Which classes use their ready list, where the processor gains from ready lists. A class loses its
// list when group moves show no gain (Cache::NoteMove), or when its allocations are rare
// (NoteMoves). It gets the list back on trial when a count runs out after dense allocations. After
// each trial that failed, the class waits for twice as many counts, since a trial writes to cache
// lines that every CPU reads.
#pragma once

#include "arch/anchor.h"
#include "base/hint.h"

namespace granary {

class ReadyTrials {
 public:
  static bool On() { return anchor.ready_lists == ReadyLists::kOnTrial; }

  // Call it when a count of class c, which HasReady, ran out after dense allocations.
  void AfterCount(SizeClass c) noexcept {
    Trial& trial = trials_[c];
    if (UsesReady(c)) {
      trial.wait = 0;
    } else if (trial.left > 0) {
      trial.left = static_cast<uint8_t>(trial.left - 1);
    } else {
      UseReady(c, true);
    }
  }

  // Takes the ready list from class c.
  void End(SizeClass c) noexcept {
    constexpr uint8_t kMaxWait = 63;
    Trial& trial = trials_[c];
    trial.left = uint8_t{trial.wait};
    trial.wait = trial.wait < kMaxWait ? static_cast<uint8_t>(2 * trial.wait + 1) : kMaxWait;
    UseReady(c, false);
  }

 private:
  struct Trial {
    Hint<uint8_t> wait;  // counts after the next trial that fails
    Hint<uint8_t> left;  // counts before the next trial
  };
  Trial trials_[kLastReady + 1];
};

}  // namespace granary
