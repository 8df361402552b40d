// The critical sections of the front on arm64. rseq_x86_64.h describes each function.
//
// Registers: %[r] thread_area, %[x] anchor.cache_index, %[c] list, %[w] address of its header, %[s]
// address of the top slot.
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
  ".inst 0xd428bc00\n"                                      \
  "4: b 0f\n"                                               \
  ".popsection\n"                                           \
  "0: adrp %[t], 3b\n"                                      \
  "add %[t], %[t], :lo12:3b\n"                              \
  "str %[t], [%[area]]\n"                                   \
  "1: ldrsw %[t], [%[r], %[x]]\n"                           \
  "ldr %[t], [%[table], %[t], lsl #3]\n"

#define GRANARY_RSEQ_HEADER             \
  "add %[w], %[t], %[c], lsl #3\n"      \
  "ldr %[h], [%[w]]\n"                  \
  "and %[s], %[h], #0xffff\n"           \
  "add %[s], %[t], %[s], lsl #3\n"

#define GRANARY_RSEQ_END "2:\n"

#define GRANARY_RSEQ_INPUTS                                                                  \
  [r] "r"(thread_area), [x] "r"(anchor.cache_index),            \
      [area] "r"(reinterpret_cast<uintptr_t>(&anchor.unregistered.sequence) + thread_area),  \
      [table] "r"(&anchor.cache[kUnregisteredIndices])

template <class Sampled>
GRANARY_ALWAYS_INLINE void* Pop(uint64_t c, Sampled&& sampled) {
  void* result;
  uint64_t t, h, w, s;
  __asm__ goto volatile(GRANARY_RSEQ_BEGIN GRANARY_RSEQ_HEADER
                        "ldr %[p], [%[s]]\n"
                        "cbz %[p], %l[empty]\n"
                        "sub %[h], %[h], #1\n"
                        "subs %[h], %[h], #16, lsl #12\n"
                        "str %[h], [%[w]]\n" GRANARY_RSEQ_END
                        "b.lo %l[due]\n"
                        : [p] "=&r"(result), [t] "=&r"(t), [h] "=&r"(h), [w] "=&r"(w), [s] "=&r"(s)
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

GRANARY_ALWAYS_INLINE bool Push(uint64_t c, void* p) {
  uint64_t t, h, w, s;
  __asm__ goto volatile(GRANARY_RSEQ_BEGIN GRANARY_RSEQ_HEADER
                        "ldr %[t], [%[s], #8]\n"
                        "cbz %[t], %l[full]\n"
                        "ldr %[t], [%[s]]\n"
                        "cmp %[t], %[p]\n"
                        "b.eq %l[full]\n"
                        "ldur %[t], [%[s], #-8]\n"
                        "cmp %[t], %[p]\n"
                        "b.eq %l[full]\n"
                        "str %[p], [%[s], #8]\n"
                        "add %[h], %[h], #1\n"
                        "str %[h], [%[w]]\n" GRANARY_RSEQ_END
                        : [t] "=&r"(t), [h] "=&r"(h), [w] "=&r"(w), [s] "=&r"(s)
                        : GRANARY_RSEQ_INPUTS, [c] "r"(c), [p] "r"(p)
                        : "memory", "cc"
                        : full);
  return true;
full:
  return false;
}

static inline size_t PushMany(uint64_t c, void* const* from, size_t n) {
  uint64_t t, h, w, s, k;
  __asm__ volatile(GRANARY_RSEQ_BEGIN GRANARY_RSEQ_HEADER
                   "mov %[k], #0\n"
                   "5: cmp %[k], %[n]\n"
                   "b.eq 6f\n"
                   "ldr %[t], [%[s], #8]\n"
                   "cbz %[t], 6f\n"
                   "ldr %[t], [%[from], %[k], lsl #3]\n"
                   "str %[t], [%[s], #8]!\n"
                   "add %[k], %[k], #1\n"
                   "b 5b\n"
                   "6: add %[h], %[h], %[k]\n"
                   "str %[h], [%[w]]\n" GRANARY_RSEQ_END
                   : [t] "=&r"(t), [h] "=&r"(h), [w] "=&r"(w), [s] "=&r"(s), [k] "=&r"(k)
                   : GRANARY_RSEQ_INPUTS, [c] "r"(c), [from] "r"(from), [n] "r"(n)
                   : "memory", "cc");
  return k;
}

static inline size_t PopMany(uint64_t c, void** to, size_t n) {
  uint64_t t, h, w, s, k;
  __asm__ volatile(GRANARY_RSEQ_BEGIN GRANARY_RSEQ_HEADER
                   "mov %[k], #0\n"
                   "5: cmp %[k], %[n]\n"
                   "b.eq 6f\n"
                   "ldr %[t], [%[s]]\n"
                   "cbz %[t], 6f\n"
                   "str %[t], [%[to], %[k], lsl #3]\n"
                   "sub %[s], %[s], #8\n"
                   "add %[k], %[k], #1\n"
                   "b 5b\n"
                   "6: sub %[h], %[h], %[k]\n"
                   "str %[h], [%[w]]\n" GRANARY_RSEQ_END
                   : [t] "=&r"(t), [h] "=&r"(h), [w] "=&r"(w), [s] "=&r"(s), [k] "=&r"(k)
                   : GRANARY_RSEQ_INPUTS, [c] "r"(c), [to] "r"(to), [n] "r"(n)
                   : "memory", "cc");
  return k;
}

static inline bool PopRun(uint64_t c, void** to, uint64_t n, uint64_t min_cursor) {
  uint64_t t, h, w, s, k;
  __asm__ goto volatile(GRANARY_RSEQ_BEGIN GRANARY_RSEQ_HEADER
                        "and %[t], %[h], #0xffff\n"
                        "cmp %[t], %[min_cursor]\n"
                        "b.lo %l[fewer]\n"
                        "sub %[s], %[s], %[n], lsl #3\n"
                        "mov %[k], #0\n"
                        "5: ldr %[t], [%[s], #8]!\n"
                        "str %[t], [%[to], %[k], lsl #3]\n"
                        "add %[k], %[k], #1\n"
                        "cmp %[k], %[n]\n"
                        "b.ne 5b\n"
                        "sub %[h], %[h], %[n]\n"
                        "str %[h], [%[w]]\n" GRANARY_RSEQ_END
                        : [t] "=&r"(t), [h] "=&r"(h), [w] "=&r"(w), [s] "=&r"(s), [k] "=&r"(k)
                        : GRANARY_RSEQ_INPUTS, [c] "r"(c), [to] "r"(to), [n] "r"(n),
                          [min_cursor] "r"(min_cursor)
                        : "memory", "cc"
                        : fewer);
  return true;
fewer:
  return false;
}

#define GRANARY_COPY_PAIR(from, to) "ldp %[t], %[v], " from "\n" "stp %[t], %[v], " to "\n"

static inline bool PopGroup(uint64_t c, void** to, uint64_t min_cursor) {
  uint64_t t, h, w, s, v;
  __asm__ goto volatile(GRANARY_RSEQ_BEGIN GRANARY_RSEQ_HEADER
                        "and %[t], %[h], #0xffff\n"
                        "cmp %[t], %[min_cursor]\n"
                        "b.lo %l[fewer]\n"
                        GRANARY_COPY_PAIR("[%[s], #-120]", "[%[to]]")
                        GRANARY_COPY_PAIR("[%[s], #-104]", "[%[to], #16]")
                        GRANARY_COPY_PAIR("[%[s], #-88]", "[%[to], #32]")
                        GRANARY_COPY_PAIR("[%[s], #-72]", "[%[to], #48]")
                        GRANARY_COPY_PAIR("[%[s], #-56]", "[%[to], #64]")
                        GRANARY_COPY_PAIR("[%[s], #-40]", "[%[to], #80]")
                        GRANARY_COPY_PAIR("[%[s], #-24]", "[%[to], #96]")
                        GRANARY_COPY_PAIR("[%[s], #-8]", "[%[to], #112]")
                        "sub %[h], %[h], #16\n"
                        "str %[h], [%[w]]\n" GRANARY_RSEQ_END
                        : [t] "=&r"(t), [h] "=&r"(h), [w] "=&r"(w), [s] "=&r"(s), [v] "=&r"(v)
                        : GRANARY_RSEQ_INPUTS, [c] "r"(c), [to] "r"(to), [min_cursor] "r"(min_cursor)
                        : "memory", "cc"
                        : fewer);
  return true;
fewer:
  return false;
}

static inline bool PushGroup(uint64_t c, void* const* from, uint64_t floor) {
  uint64_t t, h, w, s, v;
  __asm__ goto volatile(GRANARY_RSEQ_BEGIN GRANARY_RSEQ_HEADER
                        "and %[t], %[h], #0xffff\n"
                        "cmp %[t], %[floor]\n"
                        "b.ne %l[not_empty]\n"
                        "ldr %[t], [%[s], #8]\n"
                        "cbz %[t], %l[not_empty]\n"
                        GRANARY_COPY_PAIR("[%[from]]", "[%[s], #8]")
                        GRANARY_COPY_PAIR("[%[from], #16]", "[%[s], #24]")
                        GRANARY_COPY_PAIR("[%[from], #32]", "[%[s], #40]")
                        GRANARY_COPY_PAIR("[%[from], #48]", "[%[s], #56]")
                        GRANARY_COPY_PAIR("[%[from], #64]", "[%[s], #72]")
                        GRANARY_COPY_PAIR("[%[from], #80]", "[%[s], #88]")
                        GRANARY_COPY_PAIR("[%[from], #96]", "[%[s], #104]")
                        GRANARY_COPY_PAIR("[%[from], #112]", "[%[s], #120]")
                        "add %[h], %[h], #16\n"
                        "str %[h], [%[w]]\n" GRANARY_RSEQ_END
                        : [t] "=&r"(t), [h] "=&r"(h), [w] "=&r"(w), [s] "=&r"(s), [v] "=&r"(v)
                        : GRANARY_RSEQ_INPUTS, [c] "r"(c), [from] "r"(from), [floor] "r"(floor)
                        : "memory", "cc"
                        : not_empty);
  return true;
not_empty:
  return false;
}

#undef GRANARY_COPY_PAIR

static inline bool CompareStore(CacheWords* cache, uint64_t index, uint64_t expected, uint64_t value) {
  uint64_t t, h;
  __asm__ goto volatile(GRANARY_RSEQ_BEGIN
                        "cmp %[cache], %[t]\n"
                        "b.ne %l[differs]\n"
                        "ldr %[h], [%[t], %[index], lsl #3]\n"
                        "cmp %[h], %[expected]\n"
                        "b.ne %l[differs]\n"
                        "str %[value], [%[t], %[index], lsl #3]\n" GRANARY_RSEQ_END
                        : [t] "=&r"(t), [h] "=&r"(h)
                        : GRANARY_RSEQ_INPUTS, [cache] "r"(cache), [index] "r"(index),
                          [expected] "r"(expected), [value] "r"(value)
                        : "memory", "cc"
                        : differs);
  return true;
differs:
  return false;
}

#undef GRANARY_RSEQ_BEGIN
#undef GRANARY_RSEQ_HEADER
#undef GRANARY_RSEQ_END
#undef GRANARY_RSEQ_INPUTS

// clang-format on

}  // namespace granary::arch
