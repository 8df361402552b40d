#include "unwind/modules.h"

#include <link.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include <atomic>

#include "unwind/eh_frame_index.h"
#include "unwind/module_rows.h"
#include "unwind/unwind.h"

namespace granary::unwind {
namespace {

// Same layout as struct dl_find_object of glibc's dlfcn.h.
struct FoundObject {
  unsigned long long flags;
  void* begin;
  void* end;
  void* link_map;
  void* header;
  unsigned long long reserved[7];
};

extern "C" int FindObject(void* pc, FoundObject* found) __asm__("_dl_find_object")
    __attribute__((weak));

// `begin` and `end` are the bounds of the segment around `pc`, if the module is not mapped in one
// piece.
bool Locate(uintptr_t pc, Tables* tables) {
  if (FindObject == nullptr) return module_rows.Find(pc, tables) || eh_frame_index.Find(pc, tables);
  FoundObject found;
  if (FindObject(reinterpret_cast<void*>(pc), &found) != 0) return false;
  tables->begin = reinterpret_cast<uintptr_t>(found.begin);
  tables->end = reinterpret_cast<uintptr_t>(found.end);
  tables->header = reinterpret_cast<uintptr_t>(found.header);
  return tables->header != 0 || eh_frame_index.Find(pc, tables);
}

// The code of the program, the C library, this library, the loader and the kernel's module. Any
// thread writes it, always with the same values. Ranges in use come first.
struct Range {
  std::atomic<uintptr_t> begin, end;
};
constexpr size_t kMostLasting = 8;
Range lasting[kMostLasting];
std::atomic<bool> lasting_known;

class LastingRanges {
 public:
  void Add(uintptr_t begin, uintptr_t end) {
    if (count_ == kMostLasting) return;
    lasting[count_].end.store(end, std::memory_order_relaxed);
    lasting[count_++].begin.store(begin, std::memory_order_relaxed);
  }

  void AddProgram() {
    const uintptr_t at = getauxval(AT_PHDR);
    const auto* const headers = reinterpret_cast<const ElfW(Phdr)*>(at);
    const size_t count = at == 0 ? 0 : getauxval(AT_PHNUM);
    uintptr_t bias = 0;
    for (size_t i = 0; i < count; ++i) {
      const ElfW(Phdr)& header = headers[i];
      const bool first = header.p_type == PT_LOAD && header.p_offset == 0;
      if (first) bias = at - sizeof(ElfW(Ehdr)) - header.p_vaddr;
    }
    for (size_t i = 0; i < count; ++i) {
      const ElfW(Phdr)& header = headers[i];
      const uintptr_t begin = bias + header.p_vaddr;
      const bool code = header.p_type == PT_LOAD && (header.p_flags & PF_X) != 0;
      if (code) Add(begin, begin + header.p_memsz);
    }
  }

  void AddAround(uintptr_t pc) {
    Tables tables;
    if (pc != 0 && Locate(pc, &tables)) Add(tables.begin, tables.end);
  }

 private:
  size_t count_ = 0;
};

void FindLasting() {
  LastingRanges ranges;
  ranges.AddProgram();
  ranges.AddAround(reinterpret_cast<uintptr_t>(&abort));
  ranges.AddAround(reinterpret_cast<uintptr_t>(&Walk));
  ranges.AddAround(getauxval(AT_BASE));
  ranges.AddAround(getauxval(AT_SYSINFO_EHDR));
  lasting_known.store(true, std::memory_order_release);
}

}  // namespace

bool InLastingModule(uintptr_t pc) noexcept {
  if (!lasting_known.load(std::memory_order_acquire)) FindLasting();
  for (const Range& range : lasting) {
    const uintptr_t begin = range.begin.load(std::memory_order_relaxed);
    if (begin == 0) break;
    if (pc >= begin && pc < range.end.load(std::memory_order_relaxed)) return true;
  }
  return false;
}

bool FindModule(uintptr_t pc, Module* module) noexcept {
  Tables& tables = module->tables;
  if (!Locate(pc, &tables)) return false;
  module->stays = InLastingModule(pc);
  module->identity = module->stays ? 0 : tables.begin * 31 ^ tables.header << 20;
  // The tables may be in another segment than the code.
  tables.begin = 0;
  tables.end = ~uintptr_t{0};
  return true;
}

void RefreshModules() noexcept {
  eh_frame_index.Make();
  if (FindObject != nullptr || !module_rows.Refresh()) return;
  lasting_known.store(false, std::memory_order_release);
}

}  // namespace granary::unwind
