// The critical sections of the front on x86-64. Each finds the cache of this CPU, reads or writes
// slots next to the cursor and commits with one store to the list's header. If the kernel preempts,
// migrates or signals the thread before the commit, the section starts again (linux/rseq.h;
// Desnoyers, "Restartable sequences"). The signature given at registration must precede the abort
// handler.
//
// The cursor is the index of the top slot's word in the cache. A zero in that word means that the
// list is empty; a zero in the word after it means that the list is full.
//
// All functions have internal linkage. For functions with external linkage the linker would keep
// one copy, and the __rseq_cs entries of the discarded copies would describe no code.
//
// Registers: %[a] anchor, %[r] thread_area, %[x] anchor.cache_index, %[c] list.
#pragma once

#include "arch/anchor.h"

namespace granary::arch {

// clang-format off
#define GRANARY_RSEQ_BEGIN                                  \
  ".pushsection __rseq_cs,\"aw\",@progbits\n"               \
  ".balign 32\n"                                            \
  "3:\n"                                                    \
  ".long 0, 0\n"                                            \
  ".quad 1f, 2f - 1f, 4f\n"                                 \
  ".popsection\n"                                           \
  ".pushsection .text.granary_abort,\"ax\",@progbits\n"     \
  ".byte 0x0f, 0xb9, 0x3d\n"                                \
  ".long 0x53053053\n"                                      \
  "4: jmp 0f\n"                                             \
  ".popsection\n"                                           \
  "0: leaq 3b(%%rip), %[t]\n"                               \
  "movq %[t], %c[area](%[a],%[r])\n"                        \
  "1: movslq (%[r],%[x]), %[t]\n"                           \
  "movq %c[table](%[a],%[t],8), %[t]\n"

#define GRANARY_RSEQ_END "2:\n"

#define GRANARY_RSEQ_INPUTS                                                               \
  [a] "r"(&anchor), [r] "r"(thread_area), [x] "r"(anchor.cache_index),                    \
      [area] "i"(offsetof(Anchor, unregistered) + offsetof(RestartArea, sequence)),       \
      [table] "i"(offsetof(Anchor, cache) + kUnregisteredIndices * sizeof(CacheWords*))

// Pops the top pointer of list c and counts one allocation; nullptr if the list is empty. If the
// count was zero, the subtraction of the commit borrows, and the result is sampled(pointer).
template <class Sampled>
GRANARY_ALWAYS_INLINE void* Pop(uint64_t c, Sampled&& sampled) {
  void* result;
  uint64_t t, h;
  __asm__ goto volatile(GRANARY_RSEQ_BEGIN
                        "movzwl (%[t],%[c],8), %k[h]\n"
                        "movq (%[t],%[h],8), %[p]\n"
                        "testq %[p], %[p]\n"
                        "jz %l[empty]\n"
                        "subq $0x10001, (%[t],%[c],8)\n" GRANARY_RSEQ_END
                        "jc %l[due]\n"
                        : [p] "=&r"(result), [t] "=&r"(t), [h] "=&r"(h)
                        : GRANARY_RSEQ_INPUTS, [c] "r"(c)
                        : "memory", "cc"
                        : empty, due);
  if (result == nullptr) __builtin_unreachable();
  return result;
empty:
  return nullptr;
due:
  return sampled(result);
}

// Pushes p to list c; false if the list is full, or if p may be one of the two top pointers: a
// double free, or an old pointer of another list below the floor of this one.
GRANARY_ALWAYS_INLINE bool Push(uint64_t c, void* p) {
  uint64_t t, h;
  __asm__ goto volatile(GRANARY_RSEQ_BEGIN
                        "movzwl (%[t],%[c],8), %k[h]\n"
                        "cmpq $0, 8(%[t],%[h],8)\n"
                        "je %l[full]\n"
                        "cmpq %[p], (%[t],%[h],8)\n"
                        "je %l[full]\n"
                        "cmpq %[p], -8(%[t],%[h],8)\n"
                        "je %l[full]\n"
                        "movq %[p], 8(%[t],%[h],8)\n"
                        "incq (%[t],%[c],8)\n" GRANARY_RSEQ_END
                        : [t] "=&r"(t), [h] "=&r"(h)
                        : GRANARY_RSEQ_INPUTS, [c] "r"(c), [p] "r"(p)
                        : "memory", "cc"
                        : full);
  return true;
full:
  return false;
}

// Pushes up to n pointers to list c; returns the number of pushed pointers.
static inline size_t PushMany(uint64_t c, void* const* from, size_t n) {
  uint64_t t, h, k, v;
  __asm__ volatile(GRANARY_RSEQ_BEGIN
                   "movzwl (%[t],%[c],8), %k[h]\n"
                   "leaq 8(%[t],%[h],8), %[h]\n"
                   "xorl %k[k], %k[k]\n"
                   "testq %[n], %[n]\n"
                   "jz 6f\n"
                   "5: cmpq $0, (%[h],%[k],8)\n"
                   "je 6f\n"
                   "movq (%[from],%[k],8), %[v]\n"
                   "movq %[v], (%[h],%[k],8)\n"
                   "incq %[k]\n"
                   "cmpq %[n], %[k]\n"
                   "jne 5b\n"
                   "6: addq %[k], (%[t],%[c],8)\n" GRANARY_RSEQ_END
                   : [t] "=&r"(t), [h] "=&r"(h), [k] "=&r"(k), [v] "=&r"(v)
                   : GRANARY_RSEQ_INPUTS, [c] "r"(c), [from] "r"(from), [n] "r"(n)
                   : "memory", "cc");
  return k;
}

// Pops up to n pointers from list c, the top one first, and counts no allocation; returns the number
// of popped pointers.
static inline size_t PopMany(uint64_t c, void** to, size_t n) {
  uint64_t t, h, k, v;
  __asm__ volatile(GRANARY_RSEQ_BEGIN
                   "movq (%[t],%[c],8), %[h]\n"
                   "movzwl %w[h], %k[h]\n"
                   "xorl %k[k], %k[k]\n"
                   "5: cmpq %[n], %[k]\n"
                   "je 6f\n"
                   "movq (%[t],%[h],8), %[v]\n"
                   "testq %[v], %[v]\n"
                   "jz 6f\n"
                   "movq %[v], (%[to],%[k],8)\n"
                   "decq %[h]\n"
                   "incq %[k]\n"
                   "jmp 5b\n"
                   "6: subq %[k], (%[t],%[c],8)\n" GRANARY_RSEQ_END
                   : [t] "=&r"(t), [h] "=&r"(h), [k] "=&r"(k), [v] "=&r"(v)
                   : GRANARY_RSEQ_INPUTS, [c] "r"(c), [to] "r"(to), [n] "r"(n)
                   : "memory", "cc");
  return k;
}

// Pops n pointers from list c, the top one last, and counts no allocation. If the cursor is below
// `min_cursor`, pops nothing and returns false.
static inline bool PopRun(uint64_t c, void** to, uint64_t n, uint64_t min_cursor) {
  uint64_t t, h, source, target, count;
  __asm__ goto volatile(GRANARY_RSEQ_BEGIN
                        "movzwl (%[t],%[c],8), %k[h]\n"
                        "cmpq %[min_cursor], %[h]\n"
                        "jb %l[fewer]\n"
                        "subq %[n], %[h]\n"
                        "leaq 8(%[t],%[h],8), %[source]\n"
                        "movq %[to], %[target]\n"
                        "movq %[n], %[count]\n"
                        "rep movsq\n"
                        "subq %[n], (%[t],%[c],8)\n" GRANARY_RSEQ_END
                        : [t] "=&r"(t), [h] "=&r"(h), [source] "=&S"(source),
                          [target] "=&D"(target), [count] "=&c"(count)
                        : GRANARY_RSEQ_INPUTS, [c] "r"(c), [to] "r"(to), [n] "r"(n),
                          [min_cursor] "r"(min_cursor)
                        : "memory", "cc"
                        : fewer);
  return true;
fewer:
  return false;
}

// Loads one slot at a time: a load that spans two recent stores cannot be forwarded and stalls.
#define GRANARY_GATHER_PAIR(n, low, high, to) \
  "movlps " low ", %%xmm" n "\n"             \
  "movhps " high ", %%xmm" n "\n"            \
  "movups %%xmm" n ", " to "\n"
#define GRANARY_COPY_PAIR(n, from, to) \
  "movups " from ", %%xmm" n "\n"      \
  "movups %%xmm" n ", " to "\n"
#define GRANARY_CLOBBERS "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3"

// Pops kGroup pointers from list c, the top one last, and counts no allocation. If the cursor is
// below `min_cursor`, pops nothing and returns false.
static inline bool PopGroup(uint64_t c, void** to, uint64_t min_cursor) {
  uint64_t t, h;
  __asm__ goto volatile(GRANARY_RSEQ_BEGIN
                        "movzwl (%[t],%[c],8), %k[h]\n"
                        "cmpq %[min_cursor], %[h]\n"
                        "jb %l[fewer]\n"
                        GRANARY_GATHER_PAIR("0", "-120(%[t],%[h],8)", "-112(%[t],%[h],8)", "(%[to])")
                        GRANARY_GATHER_PAIR("1", "-104(%[t],%[h],8)", "-96(%[t],%[h],8)", "16(%[to])")
                        GRANARY_GATHER_PAIR("2", "-88(%[t],%[h],8)", "-80(%[t],%[h],8)", "32(%[to])")
                        GRANARY_GATHER_PAIR("3", "-72(%[t],%[h],8)", "-64(%[t],%[h],8)", "48(%[to])")
                        GRANARY_GATHER_PAIR("0", "-56(%[t],%[h],8)", "-48(%[t],%[h],8)", "64(%[to])")
                        GRANARY_GATHER_PAIR("1", "-40(%[t],%[h],8)", "-32(%[t],%[h],8)", "80(%[to])")
                        GRANARY_GATHER_PAIR("2", "-24(%[t],%[h],8)", "-16(%[t],%[h],8)", "96(%[to])")
                        GRANARY_GATHER_PAIR("3", "-8(%[t],%[h],8)", "(%[t],%[h],8)", "112(%[to])")
                        "subq $16, (%[t],%[c],8)\n" GRANARY_RSEQ_END
                        : [t] "=&r"(t), [h] "=&r"(h)
                        : GRANARY_RSEQ_INPUTS, [c] "r"(c), [to] "r"(to), [min_cursor] "r"(min_cursor)
                        : GRANARY_CLOBBERS
                        : fewer);
  return true;
fewer:
  return false;
}

// Pushes kGroup pointers to list c, the last one on top. If the cursor is not `floor`, or the list
// has no slots, pushes nothing and returns false.
static inline bool PushGroup(uint64_t c, void* const* from, uint64_t floor) {
  uint64_t t, h;
  __asm__ goto volatile(GRANARY_RSEQ_BEGIN
                        "movzwl (%[t],%[c],8), %k[h]\n"
                        "cmpq %[floor], %[h]\n"
                        "jne %l[not_empty]\n"
                        "cmpq $0, 8(%[t],%[h],8)\n"
                        "je %l[not_empty]\n"
                        GRANARY_COPY_PAIR("0", "(%[from])", "8(%[t],%[h],8)")
                        GRANARY_COPY_PAIR("1", "16(%[from])", "24(%[t],%[h],8)")
                        GRANARY_COPY_PAIR("2", "32(%[from])", "40(%[t],%[h],8)")
                        GRANARY_COPY_PAIR("3", "48(%[from])", "56(%[t],%[h],8)")
                        GRANARY_COPY_PAIR("0", "64(%[from])", "72(%[t],%[h],8)")
                        GRANARY_COPY_PAIR("1", "80(%[from])", "88(%[t],%[h],8)")
                        GRANARY_COPY_PAIR("2", "96(%[from])", "104(%[t],%[h],8)")
                        GRANARY_COPY_PAIR("3", "112(%[from])", "120(%[t],%[h],8)")
                        "addq $16, (%[t],%[c],8)\n" GRANARY_RSEQ_END
                        : [t] "=&r"(t), [h] "=&r"(h)
                        : GRANARY_RSEQ_INPUTS, [c] "r"(c), [from] "r"(from), [floor] "r"(floor)
                        : GRANARY_CLOBBERS
                        : not_empty);
  return true;
not_empty:
  return false;
}

#undef GRANARY_GATHER_PAIR
#undef GRANARY_COPY_PAIR
#undef GRANARY_CLOBBERS

// If `cache` is the cache of this CPU and its word `index` equals `expected`, stores `value` in that
// word and returns true.
static inline bool CompareStore(CacheWords* cache, uint64_t index, uint64_t expected, uint64_t value) {
  uint64_t t;
  __asm__ goto volatile(GRANARY_RSEQ_BEGIN
                        "cmpq %[cache], %[t]\n"
                        "jne %l[differs]\n"
                        "cmpq %[expected], (%[t],%[index],8)\n"
                        "jne %l[differs]\n"
                        "movq %[value], (%[t],%[index],8)\n" GRANARY_RSEQ_END
                        : [t] "=&r"(t)
                        : GRANARY_RSEQ_INPUTS, [cache] "r"(cache), [index] "r"(index),
                          [expected] "r"(expected), [value] "r"(value)
                        : "memory", "cc"
                        : differs);
  return true;
differs:
  return false;
}

#undef GRANARY_RSEQ_BEGIN
#undef GRANARY_RSEQ_END
#undef GRANARY_RSEQ_INPUTS

// clang-format on

}  // namespace granary::arch
