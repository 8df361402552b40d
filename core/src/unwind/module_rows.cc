#include "unwind/module_rows.h"

#include <link.h>

namespace granary::unwind {

constinit ModuleRows module_rows;

struct ModuleRows::Visit {
  ModuleRows* rows;
  size_t count = 0;
  bool changed = false;
};

namespace {

bool ReadHeaders(const dl_phdr_info& info, Tables* tables) {
  tables->begin = ~uintptr_t{0};
  for (size_t i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    const uintptr_t begin = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) tables->header = begin;
    if (header.p_type != PT_LOAD) continue;
    if (begin < tables->begin) tables->begin = begin;
    if (begin + header.p_memsz > tables->end) tables->end = begin + header.p_memsz;
  }
  return tables->header != 0 && tables->end != 0;
}

}  // namespace

int ModuleRows::Add(void* info, size_t, void* visit) noexcept {
  const auto& module = *static_cast<const dl_phdr_info*>(info);
  Visit& v = *static_cast<Visit*>(visit);
  // The number of loads and unloads of modules; most calls find it unchanged and return.
  const unsigned long long changes = module.dlpi_adds + module.dlpi_subs;
  if (!v.changed && changes == v.rows->changes_ && changes != 0) return 1;
  if (!v.changed) v.rows->version_.fetch_add(1, std::memory_order_acq_rel);
  v.changed = true;
  v.rows->changes_ = changes;
  Tables tables;
  if (!ReadHeaders(module, &tables) || v.count == kMost) return 0;
  Row& row = v.rows->row_[v.count++];
  row.begin.store(tables.begin, std::memory_order_release);
  row.end.store(tables.end, std::memory_order_release);
  row.header.store(tables.header, std::memory_order_release);
  return 0;
}

bool ModuleRows::Refresh() noexcept {
  if (busy_.exchange(true, std::memory_order_acquire)) return false;
  Visit visit{.rows = this};
  dl_iterate_phdr([](dl_phdr_info* info, size_t size, void* to) { return Add(info, size, to); },
                  &visit);
  if (visit.changed) {
    count_.store(visit.count, std::memory_order_relaxed);
    version_.fetch_add(1, std::memory_order_release);
  }
  busy_.store(false, std::memory_order_release);
  return visit.changed;
}

bool ModuleRows::Find(uintptr_t pc, Tables* tables) const noexcept {
  const uint32_t version = version_.load(std::memory_order_acquire);
  const size_t count = count_.load(std::memory_order_relaxed);
  bool found = false;
  for (size_t i = 0; i < count && !found; ++i) {
    tables->begin = row_[i].begin.load(std::memory_order_acquire);
    tables->end = row_[i].end.load(std::memory_order_acquire);
    tables->header = row_[i].header.load(std::memory_order_acquire);
    found = pc >= tables->begin && pc < tables->end;
  }
  return found && version % 2 == 0 && version_.load(std::memory_order_relaxed) == version;
}

}  // namespace granary::unwind
