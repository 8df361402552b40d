#include "unwind/cursor.h"

namespace granary::unwind {

bool Cursor::Load() noexcept {
  if (at_ >= first_ && at_ < first_ + held_) return true;
  const size_t left = end_ - at_;
  held_ = left < sizeof window_ ? left : sizeof window_;
  first_ = at_;
  if (memory_->Copy(at_, window_, held_)) return true;
  held_ = 0;
  failed_ = true;
  return false;
}

uint64_t Cursor::Unsigned() noexcept {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = Byte();
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  failed_ = true;
  return 0;
}

int64_t Cursor::Signed() noexcept {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = Byte();
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte >= 0x80) continue;
    if ((byte & 0x40) != 0 && shift + 7 < 64) value |= ~uint64_t{0} << (shift + 7);
    return static_cast<int64_t>(value);
  }
  failed_ = true;
  return 0;
}

uint64_t Cursor::Length(uint8_t encoding) noexcept {
  switch (encoding & 0xf) {
    case 0x0:  // of the machine's size
    case 0x4:
    case 0xc:
      return Fixed<uint64_t>();
    case 0x1:
      return Unsigned();
    case 0x2:
      return Fixed<uint16_t>();
    case 0x3:
      return Fixed<uint32_t>();
    case 0x9:
      return static_cast<uint64_t>(Signed());
    case 0xa:
      return static_cast<uint64_t>(int64_t{Fixed<int16_t>()});
    case 0xb:
      return static_cast<uint64_t>(int64_t{Fixed<int32_t>()});
    default:
      failed_ = true;
      return 0;
  }
}

uint64_t Cursor::Address(uint8_t encoding) noexcept {
  constexpr uint8_t kOmitted = 0xff, kIndirect = 0x80, kRelativeToItself = 0x10;
  if (encoding == kOmitted) return 0;
  const uintptr_t itself = at_;
  uint64_t value = Length(encoding);
  const uint8_t relative = encoding & 0x70;
  if (relative == kRelativeToItself) {
    value += itself;
  } else if (relative != 0) {
    failed_ = true;  // relative to text, data or a function: no supported linker writes this
  }
  // Only the addresses of personality routines are indirect, and the unwinder does not use them.
  if ((encoding & kIndirect) != 0) value = 0;
  return value;
}

}  // namespace granary::unwind
