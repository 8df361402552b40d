// A small live set that is churned and verified. The process tests run it in threads and children.
#ifndef GRANARY_TEST_PROCESS_CHURN_H_
#define GRANARY_TEST_PROCESS_CHURN_H_

#include "../check.h"

template <size_t kSlots, unsigned kMaxLog2>
class Churn {
 public:
  explicit Churn(uint64_t seed) : random_(seed) {}
  ~Churn() { Clear(); }
  Churn(const Churn&) = delete;
  Churn& operator=(const Churn&) = delete;

  void Step() {
    const size_t at = NextRandom(&random_) % kSlots;
    Drop(at);
    sizes_[at] = RandomSize(&random_, kMaxLog2);
    blocks_[at] = malloc(sizes_[at]);
    CHECK(blocks_[at] != nullptr);
    FillPattern(blocks_[at], sizes_[at], at);
  }

  void Steps(int count) {
    for (int i = 0; i < count; ++i) Step();
  }

  void Clear() {
    for (size_t at = 0; at < kSlots; ++at) Drop(at);
  }

 private:
  void Drop(size_t at) {
    if (blocks_[at] == nullptr) return;
    CHECK(PatternHolds(blocks_[at], sizes_[at], at));
    free(blocks_[at]);
    blocks_[at] = nullptr;
  }

  uint64_t random_;
  void* blocks_[kSlots] = {};
  size_t sizes_[kSlots] = {};
};

#endif  // GRANARY_TEST_PROCESS_CHURN_H_
