// The file of a recording, mapped as a whole. Its chunks are given to threads one after the other.
// If it keeps the last events, a full file gives the chunk again that was complete first.
#pragma once

#include "format.h"

namespace granary::record {

class File {
 public:
  // Creates the file at `path` and maps it; false, with a message on stderr, if that fails. A file
  // that this process made before its last exec is replaced; any other is kept, without a message.
  bool Create(const char* path, uint64_t max_bytes, bool keeps_last);
  // Unmaps the file of the parent in a child of fork.
  void Drop();

  Header& header() { return *header_; }
  // A chunk of zeros, or nullptr: then the header says why.
  uint8_t* NewChunk();
  // Full, and each chunk is still written into.
  bool IsInUse() const {
    return queue_ != nullptr && header_->chunks == header_->max_chunks && taken_ == queued_;
  }
  // The chunk is complete, at this time: its pages leave the process, not the page cache.
  void Finish(uint8_t* end, uint64_t ticks);

 private:
  struct Complete {
    uint8_t* chunk;
    uint64_t ticks;
  };

  bool MakeQueue(uint64_t chunks);
  uint8_t* OldestChunk();
  uint8_t* Ended(Stop why);

  Header* header_;
  size_t bytes_;
  // Complete chunks in their order, in a ring with a place for each chunk. Null: none is given
  // again.
  Complete* queue_;
  uint64_t queued_, taken_;
};

}  // namespace granary::record
