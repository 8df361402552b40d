// How much of its large objects a program writes, so that a replay can write as much. The whole
// pages of such an object are dropped when it is allocated; those that are resident when it is
// freed were written since.
#pragma once

#include "words.h"

namespace granary::record {

class Written {
 public:
  static constexpr size_t kLeast = 16 << 10;

  // Before the first event of a file. False: there is no memory, or the allocator below does not
  // tell the sizes of its objects.
  bool Start();
  void Stop() { counts_ = nullptr; }
  bool on() const { return counts_ != nullptr; }

  void Allocated(Kind kind, size_t size, void* p) {
    if (__builtin_expect(size >= kLeast && counts_ != nullptr, 0)) Begin(kind, size, p);
  }
  // Before the event of a call that frees or moves p.
  void Freed(Words& words, const void* p) {
    if (__builtin_expect(counts_ != nullptr, 0)) Write(words, p);
  }

 private:
  static constexpr size_t kCounts = 4096;

  void Begin(Kind kind, size_t size, void* p);
  void Write(Words& words, const void* p);
  uint32_t& CountOf(const void* p);
  size_t UsableSize(const void* p) const { return usable_size_(const_cast<void*>(p)); }

  // How many large objects are live, by a hash of the address: where none is, free asks no size.
  uint32_t* counts_;
  uint32_t* memory_;
  size_t (*usable_size_)(void*);
  size_t page_;
};

extern Written written;

}  // namespace granary::record
