#include "simulate/sequence.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "simulate/machine.h"

namespace granary::simulate {

void FailCut() { Fail("the sequence is cut or damaged; run `granary simulate` again"); }

Sequence::Sequence(const char* path)
    : file_(std::strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)) {
  if (file_ < 0) Fail("the sequence cannot be opened");
  uint64_t head[2];
  size_t bytes = 0;
  while (bytes < sizeof head) {
    const ssize_t n = read(file_, reinterpret_cast<char*>(head) + bytes, sizeof head - bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) FailCut();
    bytes += static_cast<size_t>(n);
  }
  if (std::memcmp(head, kSequenceMagic, sizeof kSequenceMagic) != 0 || head[1] != kSequenceVersion)
    Fail("the file is no sequence of this version; build simulate again");
}

std::span<const uint64_t> Sequence::Next() {
  auto* const to = reinterpret_cast<char*>(words_);
  std::memcpy(to, words_ + count_, rest_);
  size_t bytes = rest_;
  while (bytes < sizeof(uint64_t)) {
    const ssize_t n = read(file_, to + bytes, sizeof words_ - bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) FailCut();
    bytes += static_cast<size_t>(n);
  }
  count_ = bytes / sizeof(uint64_t);
  rest_ = bytes % sizeof(uint64_t);
  return {words_, count_};
}

}  // namespace granary::simulate
