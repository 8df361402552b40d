// Compares the heap with a model: 200,000 random calls over 2,000 slots, sizes of 0 to 4 MiB,
// alignments of 1 to 64 KiB. A map of the live ranges finds overlaps when they arise, and patterns
// find them later.
#include <malloc.h>

#include <algorithm>
#include <map>
#include <vector>

#include "../check.h"

namespace {

constexpr int kCalls = 200000;
constexpr size_t kSlots = 2000;
constexpr unsigned kMaxLog2 = 22;

struct Slot {
  void* address = nullptr;
  size_t size = 0;
  uint64_t seed = 0;
};

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed), slots_(kSlots) {}

  void Step() {
    Slot& slot = slots_[NextRandom(&random_) % kSlots];
    if (slot.address == nullptr) return Allocate(slot);
    CHECK(PatternHolds(slot.address, slot.size, slot.seed));
    if (NextRandom(&random_) % 4 == 0) return Reallocate(slot);
    Free(slot);
  }

  void Finish() {
    for (Slot& slot : slots_) {
      if (slot.address == nullptr) continue;
      CHECK(PatternHolds(slot.address, slot.size, slot.seed));
      Free(slot);
    }
    CHECK(ranges_.empty());
  }

 private:
  // Mostly small sizes; one in fifty is any size up to 4 MiB.
  size_t Size() {
    if (NextRandom(&random_) % 50 == 0) return NextRandom(&random_) & ((1u << kMaxLog2) - 1);
    return RandomSize(&random_, kMaxLog2);
  }

  void Allocate(Slot& slot) {
    const size_t size = Size();
    const size_t alignment = size_t{1} << (NextRandom(&random_) % 17);
    switch (NextRandom(&random_) % 8) {
      case 0:
        return Take(slot, aligned_alloc(alignment, size), size, alignment);
      case 1:
        return Take(slot, memalign(alignment, size), size, alignment);
      case 2: {
        void* zeroed = calloc(1, size);
        CHECK(zeroed != nullptr && AllZero(zeroed, size));
        return Take(slot, zeroed, size, PromisedAlignment(size));
      }
      default:
        return Take(slot, malloc(size), size, PromisedAlignment(size));
    }
  }

  void Reallocate(Slot& slot) {
    const size_t kept_size = slot.size;
    const uint64_t kept_seed = slot.seed;
    const size_t size = Size() + 1;
    Forget(slot);
    void* moved = realloc(slot.address, size);
    CHECK(moved != nullptr);
    CHECK(PatternHolds(moved, std::min(size, kept_size), kept_seed));
    Take(slot, moved, size, PromisedAlignment(size));
  }

  void Free(Slot& slot) {
    Forget(slot);
    free(slot.address);
    slot = {};
  }

  void Take(Slot& slot, void* address, size_t size, size_t alignment) {
    CHECK(address != nullptr);
    CHECK(IsAligned(address, alignment));
    slot = {address, size, NextRandom(&random_)};
    const auto start = reinterpret_cast<uintptr_t>(address);
    const uintptr_t end = start + std::max<size_t>(malloc_usable_size(address), 1);
    const auto next = ranges_.lower_bound(start);
    CHECK(next == ranges_.end() || next->first >= end);
    CHECK(next == ranges_.begin() || std::prev(next)->second <= start);
    ranges_[start] = end;
    FillPattern(address, size, slot.seed);
  }

  void Forget(const Slot& slot) {
    CHECK(ranges_.erase(reinterpret_cast<uintptr_t>(slot.address)) == 1);
  }

  uint64_t random_;
  std::vector<Slot> slots_;
  std::map<uintptr_t, uintptr_t> ranges_;
};

}  // namespace

int main(int argc, char** argv) {
  const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 0) : 20240607;
  printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Model model(seed);
  for (int i = 0; i < kCalls; ++i) model.Step();
  model.Finish();
}
