#include "base/treap.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

namespace granary {
namespace {

struct Item {
  int key = 0;
  TreapLink<Item> link;
};
struct ByKey {
  static bool Less(const Item& a, const Item& b) { return a.key < b.key; }
};
using Items = Treap<Item, &Item::link, ByKey>;

TEST(Treap, AgreesWithASet) {
  std::vector<Item> pool(500);
  for (size_t i = 0; i < pool.size(); ++i) pool[i].key = static_cast<int>(i);
  Items items;
  std::set<int> model;
  uint64_t state = 7;
  for (int step = 0; step < 20000; ++step) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const int key = static_cast<int>((state >> 33) % pool.size());
    if (model.erase(key) > 0) {
      items.Remove(&pool[static_cast<size_t>(key)]);
    } else {
      model.insert(key);
      items.Insert(&pool[static_cast<size_t>(key)]);
    }
    const int from = static_cast<int>((state >> 12) % pool.size());
    const auto reached = [from](const Item& item) { return item.key >= from; };
    const auto it = model.lower_bound(from);
    const Item* const first = items.First(reached);
    ASSERT_EQ(first == nullptr ? -1 : first->key, it == model.end() ? -1 : *it);
    const Item* const before = items.LastBefore(reached);
    ASSERT_EQ(before == nullptr ? -1 : before->key, it == model.begin() ? -1 : *std::prev(it));
  }
  std::set<int> seen;
  for (Item* i = items.first(); i != nullptr; i = items.After(i)) seen.insert(i->key);
  EXPECT_EQ(seen, model);
  for (const int key : model) items.Remove(&pool[static_cast<size_t>(key)]);
  EXPECT_TRUE(items.empty());
}

// Inserts objects in ascending order of address and key, as trackers are. A plain tree would become
// a list.
TEST(Treap, StaysFlatWhereKeysAscend) {
  constexpr size_t kItems = 1 << 16;
  const auto pool = std::make_unique<Item[]>(kItems);
  Items items;
  for (size_t i = 0; i < kItems; ++i) {
    pool[i].key = static_cast<int>(i);
    items.Insert(&pool[i]);
  }
  size_t most = 0;
  for (size_t i = 0; i < kItems; i += 37) {
    size_t steps = 0;
    items.First([&](const Item& item) { return ++steps, item.key >= static_cast<int>(i); });
    if (steps > most) most = steps;
  }
  EXPECT_LT(most, 80u) << "a random tree of 65,536 objects has a depth of about 40";
}

}  // namespace
}  // namespace granary
