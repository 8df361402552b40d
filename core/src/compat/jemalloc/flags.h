// The word of flags of the *allocx functions: aaaaaaaa aaaatttt tttttttt 0znnnnnn.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary::jemalloc {

class Flags {
 public:
  constexpr explicit Flags(int flags) : word_(static_cast<uint32_t>(flags)) {}

  constexpr size_t Alignment() const { return size_t{1} << (word_ & 63); }
  constexpr bool Zero() const { return (word_ & 0x40) != 0; }
  // 0 stands for the automatic cache, 1 for none; explicit caches follow.
  constexpr uint32_t CacheField() const { return (word_ >> 8) & 0xfff; }
  constexpr bool NoCache() const { return CacheField() == 1; }
  // 0 stands for the automatic arena; arena a has the number a + 1.
  constexpr uint32_t ArenaField() const { return word_ >> 20; }
  // No flag is set: the call does what an ordinary malloc or free does.
  constexpr bool Plain() const { return word_ == 0; }

 private:
  uint32_t word_;
};

}  // namespace granary::jemalloc
