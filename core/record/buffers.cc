#include "buffers.h"

#include <string.h>

namespace granary::record {

namespace {

constexpr uint32_t kStates = (1u << kBufferStateBits) - 1;

uint32_t* TableOf(Header& header) {
  return reinterpret_cast<uint32_t*>(reinterpret_cast<uint8_t*>(&header) + kBufferTable);
}

uint32_t RowsOf(Header& header) { return __atomic_load_n(&header.buffers, __ATOMIC_ACQUIRE); }

bool Is(uint32_t entry, BufferState state) {
  return (entry & kStates) == static_cast<uint32_t>(state);
}

uint32_t With(uint32_t entry, BufferState state) {
  return (entry & ~kStates) | static_cast<uint32_t>(state);
}

}  // namespace

uint32_t TakeBuffer(Header& header) {
  uint32_t* const table = TableOf(header);
  const uint32_t rows = RowsOf(header);
  for (uint32_t row = 0; row < rows; ++row) {
    uint32_t entry = __atomic_load_n(&table[row], __ATOMIC_RELAXED);
    if (Is(entry, BufferState::kFree) &&
        __atomic_compare_exchange_n(&table[row], &entry, With(entry, BufferState::kWritten), false,
                                    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
      return row;
    }
  }
  return kNoBuffer;
}

bool MakeBuffers(File& file) {
  Header& header = file.header();
  const uint32_t rows = RowsOf(header);
  if (rows + kBuffersOfChunk > kMostBuffers) {
    header.stop = Stop::kInUse;
    return false;
  }
  uint8_t* const chunk = file.NewChunk();
  if (chunk == nullptr) return false;
  const auto number = static_cast<uint32_t>((chunk - ChunkAt(header, 0)) / kChunkBytes);
  for (uint32_t i = 0; i < kBuffersOfChunk; ++i) {
    *reinterpret_cast<ChunkHeader*>(chunk + i * kBufferBytes) = {0, Form::kBuffers, 0};
    const uint32_t place = number * kBuffersOfChunk + i;
    TableOf(header)[rows + i] = With(place << kBufferStateBits, BufferState::kFree);
  }
  __atomic_store_n(&header.buffers, rows + kBuffersOfChunk, __ATOMIC_RELEASE);
  return true;
}

uint8_t* BufferAt(Header& header, uint32_t row) {
  return ChunkAt(header, 0) + size_t{TableOf(header)[row] >> kBufferStateBits} * kBufferBytes;
}

void SetBuffer(Header& header, uint32_t row, BufferState state) {
  uint32_t& entry = TableOf(header)[row];
  __atomic_store_n(&entry, With(entry, state), __ATOMIC_RELEASE);
}

uint32_t CountBuffers(Header& header, BufferState state) {
  uint32_t count = 0;
  for (uint32_t row = 0; row < RowsOf(header); ++row)
    count += Is(__atomic_load_n(&TableOf(header)[row], __ATOMIC_RELAXED), state);
  return count;
}

// The first word first: a reader then finds none, and the events where they were packed.
void ClearBuffer(uint8_t* buffer, const uint64_t* end) {
  auto* const first = reinterpret_cast<uint64_t*>(buffer + sizeof(ChunkHeader));
  if (first == end) return;
  __atomic_store_n(first, 0, __ATOMIC_RELEASE);
  memset(first + 1, 0, static_cast<size_t>(end - first - 1) * sizeof *first);
}

namespace {

// Reads words into what an event consists of.
class Packer {
 public:
  Packer(Encoder& to, uint64_t ticks) : to_(to), ticks_(ticks) {}

  void Pack(uint64_t word) {
    const auto kind = static_cast<Kind>(word & ((1u << kKindBits) - 1));
    if (kind == Kind::kOther) return Take(static_cast<Context>(word >> kKindBits & 7), word);
    const uint64_t small = word >> kWordSizeShift & ((1u << kWordSizeBits) - 1);
    const uintptr_t address = word >> kWordAddressShift << 3 | high_;
    to_.Event(kind, size_ | small, alignment_, address, ticks_);
    size_ = high_ = 0;
    alignment_ = 0;
  }

 private:
  void Take(Context context, uint64_t word) {
    const uint64_t number = word >> kContextBits;
    switch (context) {
      case Context::kTime:
        ticks_ = number;
        break;
      case Context::kSize:
        alignment_ = static_cast<unsigned>(number & ((1u << kAlignmentBits) - 1));
        size_ = number >> kAlignmentBits;
        break;
      case Context::kAddress:
        high_ = number << kWordAddressBits;
        break;
      case Context::kStack:
        to_.Stack(static_cast<uint32_t>(number));
        break;
      case Context::kWritten:
        to_.Written(number);
        break;
    }
  }

  Encoder& to_;
  uint64_t ticks_;
  uint64_t size_ = 0, high_ = 0;
  unsigned alignment_ = 0;
};

}  // namespace

bool PackBuffer(const uint8_t* buffer, const uint64_t* end, Encoder& to) {
  if (!to.HasRoom()) return false;
  const auto& header = *reinterpret_cast<const ChunkHeader*>(buffer);
  Encoder packed = to;
  packed.Thread(header.thread, header.ticks);
  Packer packer(packed, header.ticks);
  for (auto* word = reinterpret_cast<const uint64_t*>(buffer + sizeof header); word < end; ++word) {
    if (!packed.HasRoom()) {
      packed.Return(to.at());
      return false;
    }
    packer.Pack(*word);
  }
  to = packed;
  return true;
}

}  // namespace granary::record
