// A huge page that backs the first span of an untouched region, or the end of a block there, makes
// the free granules beside it resident, too. They count as clean at first: they read as zero, and a
// growing heap uses them soon. Those that are still free at the end of the interval become dirty.
#pragma once

#include "pages/page_core.h"

namespace granary {

template <Os System>
class FilledRegions {
 public:
  void Bind(PageCore<System>& core) { core_ = &core; }

  // All functions are called with the lock. This one precedes the first span or the end of a block
  // in t, which has no used granules.
  void Note(Tracker* t) {
    if (!t->MayBeHuge() || t->dirty_count > 0) return;
    t->filled = true;
    Tracker*& place = recent_[at_++ % kMost];
    Tracker* const oldest = place;
    place = t;
    if (oldest != nullptr && oldest != t) CountDirty(oldest);
  }

  // Marks the free granules of t as dirty.
  void CountDirty(Tracker* t) {
    if (!t->filled || !t->in_use()) return;
    t->filled = false;
    const size_t before = t->dirty_count;
    for (BitRun run = NextRun(t->used, 0, Tracker::kGranules, false); run.count > 0;
         run = NextRun(t->used, run.first + run.count, Tracker::kGranules, false)) {
      t->MarkDirty(run.first, run.count);
    }
    core_->figures.AddDirty(t->dirty_count - before);
  }

  void CountAllDirty() {
    for (Tracker*& t : recent_) {
      if (t != nullptr) CountDirty(t);
      t = nullptr;
    }
  }

 private:
  static constexpr size_t kMost = 16;

  PageCore<System>* core_ = nullptr;
  Tracker* recent_[kMost] = {};
  uint32_t at_ = 0;
};

}  // namespace granary
