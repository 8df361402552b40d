#include "unwind/eh_frame_index.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <algorithm>

#include "os/linux.h"

namespace granary::unwind {

constinit EhFrameIndex eh_frame_index;

namespace {

constexpr char kName[] = ".eh_frame";

// The sections of the file of the running program.
class File {
 public:
  File() noexcept : file_(Linux::OpenFile("/proc/self/exe")) {}
  ~File() {
    if (file_ >= 0) Linux::CloseFile(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Relative to the address of the program.
  bool FindFrames(Section* found) const noexcept {
    ElfW(Ehdr) head;
    ElfW(Shdr) names, section;
    if (!Read(0, &head) || head.e_shentsize != sizeof section) return false;
    if (!Read(head.e_shoff + head.e_shstrndx * sizeof names, &names)) return false;
    for (size_t i = 1; i < head.e_shnum; ++i) {
      char name[sizeof kName];
      if (!Read(head.e_shoff + i * sizeof section, &section)) return false;
      const bool loaded = (section.sh_flags & SHF_ALLOC) != 0 && section.sh_type != SHT_NOBITS;
      if (!loaded || !Read(names.sh_offset + section.sh_name, &name)) continue;
      if (__builtin_memcmp(name, kName, sizeof kName) != 0) continue;
      *found = {section.sh_addr, section.sh_addr + section.sh_size};
      return true;
    }
    return false;
  }

 private:
  template <class T>
  bool Read(uint64_t at, T* to) const noexcept {
    return file_ >= 0 && Linux::ReadFileAt(file_, to, sizeof *to, at) == long{sizeof *to};
  }

  int file_;
};

struct Program {
  uintptr_t bias = 0;  // the difference between addresses in memory and in the file
  uintptr_t begin = ~uintptr_t{0}, end = 0;
  bool has_table = false;
};

// False if the kernel gives no program headers, or the start of the file is not mapped.
bool FindProgram(Program* program) noexcept {
  const uintptr_t at = getauxval(AT_PHDR);
  const auto* const headers = reinterpret_cast<const ElfW(Phdr)*>(at);
  const size_t count = at == 0 ? 0 : getauxval(AT_PHNUM);
  bool headed = false;
  for (size_t i = 0; i < count; ++i) {
    const ElfW(Phdr)& header = headers[i];
    if (header.p_type == PT_GNU_EH_FRAME) program->has_table = true;
    if (header.p_type != PT_LOAD) continue;
    if (header.p_offset == 0) {
      headed = true;
      program->bias = at - sizeof(ElfW(Ehdr)) - header.p_vaddr;
    }
    program->begin = std::min(program->begin, uintptr_t{header.p_vaddr});
    program->end = std::max(program->end, uintptr_t{header.p_vaddr + header.p_memsz});
  }
  program->begin += program->bias;
  program->end += program->bias;
  return headed;
}

// Calls use(address of the entry, first address of its code) for each entry.
template <class Use>
void ForEach(const Section& frames, const Use& use) noexcept {
  TableMemory memory(frames.begin, frames.end);
  const Tables tables{.begin = frames.begin, .end = frames.end};
  for (uintptr_t at = frames.begin; at != 0 && at < frames.end;) {
    FrameEntry entry;
    if (ReadEntry(memory, tables, at, &entry)) use(at, entry);
    at = NextEntry(memory, at, frames.end);
  }
}

}  // namespace

void EhFrameIndex::Make() noexcept {
  if (tried_.exchange(true, std::memory_order_relaxed)) return;
  Program program;
  Section frames;
  if (!FindProgram(&program) || program.has_table || !File().FindFrames(&frames)) return;
  const uintptr_t bias = program.bias;
  MakeFrom(program.begin, program.end, {frames.begin + bias, frames.end + bias});
}

bool EhFrameIndex::MakeFrom(uintptr_t begin, uintptr_t end, const Section& frames) noexcept {
  if (frames.begin < begin || frames.end > end || end - begin > INT32_MAX) return false;
  size_t most = 0;
  ForEach(frames, [&](uintptr_t, const FrameEntry&) { ++most; });
  if (most == 0) return false;
  constexpr size_t kAlignment = 64 * kKiB;
  row_ = static_cast<FrameRow*>(Linux::Map(most * sizeof(FrameRow), kAlignment, nullptr));
  if (row_ == nullptr) return false;
  size_t count = 0;
  ForEach(frames, [&](uintptr_t at, const FrameEntry& entry) {
    if (entry.begin < begin || entry.end > end || count == most) return;
    row_[count++] = {static_cast<int32_t>(entry.begin - begin), static_cast<int32_t>(at - begin)};
  });
  std::sort(row_, row_ + count,
            [](const FrameRow& a, const FrameRow& b) { return a.code < b.code; });
  if (count == 0) Linux::Unmap(row_, most * sizeof(FrameRow));
  begin_ = begin;
  end_ = end;
  count_.store(count, std::memory_order_release);
  return count != 0;
}

bool EhFrameIndex::Find(uintptr_t pc, Tables* tables) const noexcept {
  const size_t count = count_.load(std::memory_order_acquire);
  if (count == 0 || pc < begin_ || pc >= end_) return false;
  *tables = {.begin = begin_,
             .end = end_,
             .header = begin_,
             .rows = reinterpret_cast<uintptr_t>(row_),
             .count = count};
  return true;
}

}  // namespace granary::unwind
