// A module calls a function of another one through a slot that the loader has filled, as one of its
// relocations says. Here the recorder's address goes into the slots, in place of the allocator's.
#include "slots.h"

#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "next.h"

// What <stdlib.h> and <malloc.h> do not declare everywhere.
extern "C" {
void* pvalloc(size_t) noexcept;
void cfree(void*);
void free_sized(void*, size_t);
void free_aligned_sized(void*, size_t, size_t);
#define NEW(symbol, parameters, arguments, alignment) void* symbol parameters;
#define DELETE(symbol, parameters, arguments) void symbol parameters;
#include "operators.def"
#undef NEW
#undef DELETE
}

namespace granary::record {

namespace {

struct Redirect {
  const char* symbol;
  uintptr_t to;
  uintptr_t from;  // what the slots hold; 0: the process has no such function
};

#define FUNCTION(symbol) {#symbol, reinterpret_cast<uintptr_t>(&symbol), 0},
#define NEW(symbol, parameters, arguments, alignment) FUNCTION(symbol)
#define DELETE(symbol, parameters, arguments) FUNCTION(symbol)
Redirect redirects[] = {
    FUNCTION(malloc) FUNCTION(free) FUNCTION(calloc) FUNCTION(realloc) FUNCTION(reallocarray)
        FUNCTION(memalign) FUNCTION(aligned_alloc) FUNCTION(posix_memalign) FUNCTION(valloc)
            FUNCTION(pvalloc) FUNCTION(cfree) FUNCTION(free_sized) FUNCTION(free_aligned_sized)
#include "operators.def"
};
#undef NEW
#undef DELETE
#undef FUNCTION

#if defined(__x86_64__)
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kGlobal = R_X86_64_GLOB_DAT,
                   kAbsolute = R_X86_64_64;
#elif defined(__aarch64__)
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kGlobal = R_AARCH64_GLOB_DAT,
                   kAbsolute = R_AARCH64_ABS64;
#endif

struct Module {
  uintptr_t base, begin, end;
  uintptr_t relro, relro_end;  // made read-only by the loader
  const ElfW(Sym) * symbols;
  const char* names;
};

Redirect* FindRedirect(const char* symbol) {
  for (Redirect& r : redirects) {
    if (r.from != 0 && strcmp(r.symbol, symbol) == 0) return &r;
  }
  return nullptr;
}

bool Put(const Module& m, uintptr_t* slot, uintptr_t value) {
  const size_t page_bytes = PageBytes();
  const uintptr_t at = reinterpret_cast<uintptr_t>(slot);
  void* const page = reinterpret_cast<void*>(at & ~(page_bytes - 1));
  const bool is_sealed = at >= m.relro && at < m.relro_end;
  if (is_sealed && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(slot, value, __ATOMIC_RELEASE);
  if (is_sealed) mprotect(page, page_bytes, PROT_READ);
  return true;
}

// A slot that was never called through leads into its own module, where the loader is asked.
bool IsToBeFilled(const Module& m, uint32_t type, uintptr_t value) {
  return type == kJumpSlot && value >= m.begin && value < m.end;
}

size_t RedirectIn(const Module& m, const ElfW(Rela) * first, size_t n) {
  size_t count = 0;
  for (const auto* r = first; r < first + n; ++r) {
    const auto type = static_cast<uint32_t>(ELF64_R_TYPE(r->r_info));
    if (type != kJumpSlot && type != kGlobal && type != kAbsolute) continue;
    if (ELF64_R_SYM(r->r_info) == 0 || r->r_addend != 0) continue;
    const Redirect* const redirect =
        FindRedirect(m.names + m.symbols[ELF64_R_SYM(r->r_info)].st_name);
    if (redirect == nullptr) continue;
    auto* const slot = reinterpret_cast<uintptr_t*>(m.base + r->r_offset);
    if (*slot == redirect->to) {
      ++count;
    } else if (*slot == redirect->from || IsToBeFilled(m, type, *slot)) {
      count += Put(m, slot, redirect->to);
    }
  }
  return count;
}

// Some modules have addresses in their dynamic section, some, as the vDSO, offsets.
uintptr_t Absolute(const Module& m, uintptr_t value) {
  return value < m.base ? m.base + value : value;
}

void ReadHeaders(const dl_phdr_info* info, Module& m, const ElfW(Dyn) * &dynamic) {
  m = {info->dlpi_addr, ~uintptr_t{0}, 0, 0, 0, nullptr, nullptr};
  for (size_t i = 0; i < info->dlpi_phnum; ++i) {
    const auto& h = info->dlpi_phdr[i];
    const uintptr_t begin = m.base + h.p_vaddr;
    if (h.p_type == PT_LOAD) {
      m.begin = begin < m.begin ? begin : m.begin;
      m.end = begin + h.p_memsz > m.end ? begin + h.p_memsz : m.end;
    } else if (h.p_type == PT_GNU_RELRO) {
      m.relro = begin;
      m.relro_end = (begin + h.p_memsz) & ~(PageBytes() - 1);  // as the loader rounds it
    } else if (h.p_type == PT_DYNAMIC) {
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    }
  }
}

int RedirectModule(dl_phdr_info* info, size_t, void* total) {
  Module m;
  const ElfW(Dyn)* dynamic = nullptr;
  ReadHeaders(info, m, dynamic);
  const auto self = reinterpret_cast<uintptr_t>(redirects);
  if (dynamic == nullptr || (self >= m.begin && self < m.end)) return 0;
  uintptr_t entries[DT_JMPREL + 1]{};
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const auto tag = static_cast<uintptr_t>(dynamic->d_tag);
    if (tag <= DT_JMPREL) entries[tag] = dynamic->d_un.d_val;
  }
  if (entries[DT_SYMTAB] == 0 || entries[DT_STRTAB] == 0) return 0;
  m.symbols = reinterpret_cast<const ElfW(Sym)*>(Absolute(m, entries[DT_SYMTAB]));
  m.names = reinterpret_cast<const char*>(Absolute(m, entries[DT_STRTAB]));
  const auto redirect = [&m, &entries](int list, int bytes) {
    const auto* const first = reinterpret_cast<const ElfW(Rela)*>(Absolute(m, entries[list]));
    return RedirectIn(m, first, entries[bytes] / sizeof *first);
  };
  *static_cast<size_t*>(total) += redirect(DT_JMPREL, DT_PLTRELSZ) + redirect(DT_RELA, DT_RELASZ);
  return 0;
}

}  // namespace

bool RedirectCalls() {
  for (Redirect& r : redirects) r.from = reinterpret_cast<uintptr_t>(FindBelow(r.symbol));
  size_t total = 0;
  dl_iterate_phdr(RedirectModule, &total);
  return total > 0;
}

}  // namespace granary::record
