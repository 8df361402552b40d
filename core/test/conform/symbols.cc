// Every name that a program can reach belongs to the same object file as malloc: an object from one
// heap must never reach the free of another.
#include <malloc.h>

#include <new>

#include "../check.h"

// clang-format off
#define FOR_EACH_WEAK(X) \
  X(cfree) X(free_sized) X(free_aligned_sized) X(__libc_malloc) X(__libc_free) \
  X(__libc_calloc) X(__libc_realloc) X(__libc_memalign) X(__libc_valloc) X(__libc_pvalloc) \
  X(mallinfo) X(mallinfo2) X(mallopt) X(malloc_trim) X(malloc_stats) X(malloc_info) X(_Znwm) \
  X(_Znam) X(_ZnwmRKSt9nothrow_t) X(_ZnamRKSt9nothrow_t) X(_ZnwmSt11align_val_t) \
  X(_ZnamSt11align_val_t) X(_ZnwmSt11align_val_tRKSt9nothrow_t) \
  X(_ZnamSt11align_val_tRKSt9nothrow_t) X(_ZdlPv) X(_ZdaPv) X(_ZdlPvRKSt9nothrow_t) \
  X(_ZdaPvRKSt9nothrow_t) X(_ZdlPvm) X(_ZdaPvm) \
  X(_ZdlPvSt11align_val_t) X(_ZdaPvSt11align_val_t) X(_ZdlPvSt11align_val_tRKSt9nothrow_t) \
  X(_ZdaPvSt11align_val_tRKSt9nothrow_t) X(_ZdlPvmSt11align_val_t) X(_ZdaPvmSt11align_val_t)
// clang-format on

// Declared as data under another identifier, because only the addresses matter here.
#define DECLARE(name) extern "C" __attribute__((weak)) char symbol_##name __asm__(#name);
FOR_EACH_WEAK(DECLARE)

namespace {

struct Row {
  const char* name;
  const void* address;
};

const void* Base(const void* address) {
  Dl_info owner;
  if (address == nullptr || dladdr(address, &owner) == 0) return nullptr;
  return owner.dli_fbase;
}

const void* AddressOf(void* function) { return Hide(function); }

#define STRONG(name) {#name, AddressOf(reinterpret_cast<void*>(&name))},
#define WEAK(name) {#name, Hide(&symbol_##name)},

const Row kRows[] = {STRONG(malloc) STRONG(free) STRONG(calloc) STRONG(realloc)
                         STRONG(aligned_alloc) STRONG(posix_memalign) STRONG(memalign)
                             STRONG(valloc) STRONG(pvalloc) STRONG(reallocarray)
                                 STRONG(malloc_usable_size) FOR_EACH_WEAK(WEAK)};

}  // namespace

int main() {
  if (OnSystemHeap())
    SkipTest("the C library's own heap is in use; preload the library to test it.");
  const void* home = Base(kRows[0].address);
  CHECK(home != nullptr);
  int strangers = 0;
  for (const Row& row : kRows) {
    if (Base(row.address) == home) continue;
    fprintf(stderr, "%s is %s\n", row.name,
            row.address == nullptr ? "not defined" : "another object's");
    ++strangers;
  }
  CHECK(strangers == 0);
}
