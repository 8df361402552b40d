// Central over a page heap of the fake system, and a program that calls it as a stream of bytes
// says and compares it with the set of live objects.
#pragma once

#include <cstring>
#include <map>
#include <vector>

#include "central/central.h"
#include "pages/fake_pages.h"

namespace granary {

struct FakeSlabs {
  FakeSlabs() { central.Init(); }

  FakePages pages;
  Central<FakeOs> central{pages.map, pages.metadata, pages.heap};
};

class CentralProgram {
 public:
  explicit CentralProgram(FakeSlabs& slabs) : slabs_(slabs), central_(slabs.central) {}

  void Run(FakeInput input, size_t verify_every) {
    for (size_t step = 1; !input.Done(); ++step) {
      Step(input);
      if (step % verify_every == 0) Verify();
    }
    Verify();
  }

  void ReturnAll() {
    while (!live_.empty()) ReturnSome(live_.begin(), 64);
    Verify();
  }

  void Verify() {
    central_.Verify();
    slabs_.pages.heap.Verify();
    std::map<SizeClass, size_t> used;
    for (const auto& object : live_) ++used[object.second.c];
    for (const SizeClass c : kClasses) GRANARY_CHECK(central_.Stats(c).used_objects == used[c]);
  }

  size_t live() const { return live_.size(); }

 private:
  struct Object {
    SizeClass c;
    uint64_t mark;
  };
  using Objects = std::map<char*, Object>;
  // Slabs with many and with few objects, objects that span two pages, and medium objects.
  static constexpr SizeClass kClasses[] = {1,
                                           2,
                                           3,
                                           7,
                                           ClassOf(1000),
                                           ClassOf(3000),
                                           ClassOf(5000),
                                           ClassOf(20000),
                                           kNumSmall - 1,
                                           kNumSmall,
                                           kNumClasses - 1};
  static constexpr size_t kMaxLive = 6000;

  void Step(FakeInput& input) {
    const size_t op = input.Below(16);
    const SizeClass c = kClasses[input.Below(std::size(kClasses))];
    if (op < 7) return live_.size() < kMaxLive ? Fetch(c, 1 + input.Below(62)) : void();
    if (op == 7) return FetchZeroed(c);
    if (op < 14) {
      if (live_.empty()) return;
      auto it = live_.lower_bound(RandomPlace(input));
      return ReturnSome(it == live_.end() ? live_.begin() : it, 1 + input.Below(62));
    }
    if (op == 14) return Inspect(c);
    slabs_.pages.heap.PurgeDirty(input.Below(64) * kGranule);
  }

  char* RandomPlace(FakeInput& input) {
    const uintptr_t low = AddressOf(live_.begin()->first);
    const uintptr_t span = AddressOf(live_.rbegin()->first) - low + 1;
    return reinterpret_cast<char*>(low + span / 65536 * input.Word());
  }

  void Fetch(SizeClass c, size_t n) {
    if (!IsSmall(c)) n = n % 3 + 1;
    void* batch[64];
    const size_t got = central_.Fetch(c, batch, n);
    GRANARY_CHECK(got <= n);
    for (size_t i = 0; i < got; ++i) Enter(c, batch[i]);
  }

  void FetchZeroed(SizeClass c) {
    if (IsSmall(c)) return;
    auto* const p = static_cast<char*>(central_.FetchZeroed(c));
    if (p == nullptr) return;
    const uint64_t zero = 0;
    for (size_t at = 0; at < kClassSize[c]; at += kMinOsPage) {
      GRANARY_CHECK(std::memcmp(p + at, &zero, 8) == 0);
    }
    GRANARY_CHECK(std::memcmp(p + kClassSize[c] - 8, &zero, 8) == 0);
    Enter(c, p);
  }

  void Enter(SizeClass c, void* at) {
    auto* const p = static_cast<char*>(at);
    const auto [it, fresh] = live_.insert({p, Object{c, ++marks_}});
    GRANARY_CHECK(fresh && FakeOs::IsMapped(p, kClassSize[c]) && central_.IsUsed(c, p));
    const auto after = std::next(it);
    GRANARY_CHECK(after == live_.end() || p + kClassSize[c] <= after->first);
    if (it != live_.begin()) {
      const auto before = std::prev(it);
      GRANARY_CHECK(before->first + kClassSize[before->second.c] <= p);
    }
    std::memcpy(p, &marks_, 8);
    std::memcpy(p + kClassSize[c] - 8, &marks_, 8);
  }

  // Up to n objects of one class, in order of address.
  void ReturnSome(Objects::iterator it, size_t n) {
    const SizeClass c = it->second.c;
    std::vector<void*> batch;
    while (it != live_.end() && it->second.c == c && batch.size() < n) {
      char* const p = it->first;
      GRANARY_CHECK(std::memcmp(p, &it->second.mark, 8) == 0);
      GRANARY_CHECK(std::memcmp(p + kClassSize[c] - 8, &it->second.mark, 8) == 0);
      batch.push_back(p);
      it = live_.erase(it);
    }
    central_.Return(c, batch.data(), batch.size());
    if (IsSmall(c)) GRANARY_CHECK(!central_.IsUsed(c, batch[0]));
  }

  void Inspect(SizeClass c) {
    if (!IsSmall(c)) return;
    const size_t before = central_.released_bytes();
    const size_t released = central_.PurgePages(c, 4);
    GRANARY_CHECK(central_.released_bytes() == before + released);
  }

  FakeSlabs& slabs_;
  Central<FakeOs>& central_;
  Objects live_;
  uint64_t marks_ = 0;
};

}  // namespace granary
