#include "unwind/modules.h"

#include <stdlib.h>
#include <sys/auxv.h>

#include <atomic>

#include "unwind/module_rows.h"
#include "unwind/unwind.h"

namespace granary::unwind {
namespace {

// As struct dl_find_object of glibc's dlfcn.h.
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

bool Locate(uintptr_t pc, Tables* tables) {
  if (FindObject == nullptr) return module_rows.Find(pc, tables);
  FoundObject found;
  if (FindObject(reinterpret_cast<void*>(pc), &found) != 0) return false;
  tables->begin = reinterpret_cast<uintptr_t>(found.begin);
  tables->end = reinterpret_cast<uintptr_t>(found.end);
  tables->header = reinterpret_cast<uintptr_t>(found.header);
  return tables->header != 0;
}

// The ranges of the program, the C library, this library and the kernel's module. Written by any
// thread, always with the same values.
struct Range {
  std::atomic<uintptr_t> begin, end;
};
Range lasting[4];
std::atomic<bool> lasting_known;

void FindLasting() {
  const uintptr_t inside[] = {getauxval(AT_PHDR), reinterpret_cast<uintptr_t>(&abort),
                              reinterpret_cast<uintptr_t>(&Walk), getauxval(AT_SYSINFO_EHDR)};
  Range* next = lasting;
  for (const uintptr_t address : inside) {
    Tables tables;
    if (address == 0 || !Locate(address, &tables)) continue;
    next->end.store(tables.end, std::memory_order_relaxed);
    next->begin.store(tables.begin, std::memory_order_relaxed);
    ++next;
  }
  lasting_known.store(true, std::memory_order_release);
}

}  // namespace

bool InLastingModule(uintptr_t pc) noexcept {
  if (!lasting_known.load(std::memory_order_acquire)) FindLasting();
  for (const Range& range : lasting) {
    const uintptr_t begin = range.begin.load(std::memory_order_relaxed);
    if (pc >= begin && pc < range.end.load(std::memory_order_relaxed) && begin != 0) return true;
  }
  return false;
}

bool FindModule(uintptr_t pc, Module* module) noexcept {
  if (!Locate(pc, &module->tables)) return false;
  module->stays = InLastingModule(pc);
  module->identity = module->stays ? 0 : module->tables.begin * 31 ^ module->tables.header << 20;
  return true;
}

void RefreshModules() noexcept {
  if (FindObject != nullptr || !module_rows.Refresh()) return;
  lasting_known.store(false, std::memory_order_release);
}

}  // namespace granary::unwind
