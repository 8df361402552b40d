// The file of a recording, mapped as a whole. Its chunks are given to threads one after the other.
#pragma once

#include "format.h"

namespace granary::record {

class File {
 public:
  // Creates the file at `path` and maps it; false, with a message on stderr, if that fails. A file
  // that this process made before its last exec is replaced; any other is kept, without a message.
  bool Create(const char* path, uint64_t max_bytes);
  // Unmaps the file of the parent in a child of fork.
  void Drop();

  Header& header() { return *header_; }
  // A chunk of zeros, or nullptr: then the header says why.
  uint8_t* NewChunk();
  // The chunk is complete: its pages leave the process, not the page cache.
  static void Finish(uint8_t* end);

 private:
  Header* header_;
  size_t bytes_;
};

}  // namespace granary::record
