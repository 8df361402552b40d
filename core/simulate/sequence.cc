#include "simulate/sequence.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "simulate/machine.h"

namespace granary::simulate {
namespace {

constexpr const char* kCut = "the sequence is cut or damaged; run `granary simulate` again";

bool IsValid(const replay::Operation& op, size_t slots) {
  if (op.kind == replay::Kind::kSwitch) return op.slot < 1 << 24;
  return op.kind <= replay::Kind::kReallocate && op.slot < slots && op.log2_alignment < 48;
}

}  // namespace

Sequence::Sequence(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0) Fail("the sequence cannot be opened");
  const auto bytes = static_cast<size_t>(status.st_size);
  constexpr size_t kHead = sizeof(replay::Header) + sizeof(replay::Thread);
  if (bytes < kHead) Fail(kCut);
  void* const p = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (p == MAP_FAILED) Fail("the sequence cannot be mapped");
  replay::Header header;
  replay::Thread list;
  std::memcpy(&header, p, sizeof header);
  std::memcpy(&list, static_cast<const char*>(p) + sizeof header, sizeof list);
  if (std::memcmp(header.magic, replay::kSequenceMagic, sizeof header.magic) != 0 ||
      header.version != replay::kVersion) {
    Fail("the file is no sequence of this version; build simulate again");
  }
  if (list.offset != kHead || list.operations > (bytes - kHead) / sizeof(replay::Operation) ||
      header.slots > uint64_t{1} << 32) {
    Fail(kCut);
  }
  first_ = reinterpret_cast<const replay::Operation*>(static_cast<const char*>(p) + kHead);
  count_ = list.operations;
  slots_ = header.slots;
  madvise(p, bytes, MADV_SEQUENTIAL);
  for (const replay::Operation& op : *this) {
    if (!IsValid(op, slots_)) Fail(kCut);
  }
}

}  // namespace granary::simulate
