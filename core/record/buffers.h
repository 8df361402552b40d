// The buffers of a recording: a table in the header of the file says where they are, and who uses
// each. The threads of the process share it with the packer of another process.
#pragma once

#include "encoder.h"
#include "file.h"

namespace granary::record {

inline constexpr uint32_t kNoBuffer = ~uint32_t{0};

// The row of a buffer that was free and is the caller's now, the first one: it was emptied last.
// kNoBuffer: none is free.
uint32_t TakeBuffer(Header& header);
// Makes a chunk of free buffers. Called by one thread at a time. False: the file has no room, and
// its header says why.
bool MakeBuffers(File& file);

uint8_t* BufferAt(Header& header, uint32_t row);
void SetBuffer(Header& header, uint32_t row, BufferState state);
uint32_t CountBuffers(Header& header, BufferState state);
// Makes a buffer that has words up to `end` one of zeros.
void ClearBuffer(uint8_t* buffer, const uint64_t* end);

// Packs the words of a buffer up to `end`. False: there is no room for them, and `to` is as before.
bool PackBuffer(const uint8_t* buffer, const uint64_t* end, Encoder& to);

}  // namespace granary::record
