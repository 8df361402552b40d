// Small objects of an arena with option hardened: sealed as those of malloc, and zeroed when they
// are freed.
#include "arena/arena.h"
#include "base/misuse.h"
#include "hardened/seal.h"
#include "hardened/zeros.h"
#include "layers/layers.h"

namespace granary {

using hardened::kSealBytes;
using hardened::seals;
using hardened::Seals;

namespace {

[[noreturn]] GRANARY_COLD void DieOfSeal(SizeClass c, const char* p, const char* verb) {
  const bool is_free = Seals::IsOpen(p, kClassSize[c]);
  Die(MisuseReport{is_free ? Misuse::kDoubleFree : Misuse::kWrittenBeyond, verb, p, kClassSize[c],
                   0});
}

}  // namespace

// An object that needs no seal is counted with its class, a sealed one with its size.
void* Arena::AllocateSealed(size_t size, size_t alignment, bool zero) noexcept {
  if (size == 0) size = 1;
  const size_t room = size + kSealBytes;
  const SizeClass c = alignment == 1 ? ClassOf(room) : AlignedClassOf(room, alignment);
  if (c == kNoClass) return AllocateLarge(size, alignment, zero);
  const size_t bytes = IsSmall(c) ? size : kClassSize[c];
  if (!ChargeCapped(bytes)) return nullptr;
  char* const p = static_cast<char*>(TakeSmall(c));
  if (p == nullptr) {
    Discharge(bytes);
  } else if (IsSmall(c)) {
    hardened::MakePagesZero(p, kClassSize[c]);
    seals.Close(p, size, kClassSize[c]);
  } else if (zero) {
    __builtin_memset(p, 0, size);
  }
  return p;
}

size_t Arena::RequireSealed(SizeClass c, const void* p, const char* verb) noexcept {
  central_.RequireUsed(c, p, verb);
  const char* const object = static_cast<const char*>(p);
  if (!seals.IsWhole(object, kClassSize[c])) DieOfSeal(c, object, verb);
  return Seals::SizeOf(object, kClassSize[c]);
}

size_t Arena::Unseal(SizeClass c, void* p) noexcept {
  const size_t size = RequireSealed(c, p, "free");
  char* const object = static_cast<char*>(p);
  if (!Seals::MarginIsWhole(object, kClassSize[c])) DieOfSeal(c, object, "free");
  hardened::MakePagesZero(object, kClassSize[c]);
  return size;
}

// Whether the memory of p fits an object of `size` bytes, which it then holds.
bool Arena::Reseal(void* p, size_t size) noexcept {
  const SizeClass c = map_.ClassAt(p);
  const size_t before = RequireSealed(c, p, "realloc");
  if (size == 0 || ClassOf(size + kSealBytes) != c) return false;
  if (size > before && !ChargeCapped(size - before)) return false;
  if (size < before) Discharge(before - size);
  seals.Close(static_cast<char*>(p), size, kClassSize[c]);
  return true;
}

}  // namespace granary
