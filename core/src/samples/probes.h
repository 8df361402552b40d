// Static probes (USDT) of provider otel_memory, to which bpftrace, perf and eBPF profilers attach.
// A probe is a nop and a note (.note.stapsdt) that gives its address and the registers of its
// arguments.
//
//   alloc(address, requested bytes, bytes that the sample stands for)
//   free(address, bytes that the sample stood for)
#pragma once

#include <cstdint>

#include "base/compiler.h"

namespace granary::samples {

// From the base, a reader corrects the addresses in the notes of a prelinked library.
#define GRANARY_PROBE(name, arguments)                                  \
  "990: nop\n"                                                          \
  ".pushsection .note.stapsdt,\"\",%%note\n"                            \
  ".balign 4\n"                                                         \
  ".4byte 992f - 991f, 994f - 993f, 3\n"                                \
  "991: .asciz \"stapsdt\"\n"                                           \
  "992: .balign 4\n"                                                    \
  "993: .8byte 990b, granary_stapsdt_base, 0\n"                         \
  ".asciz \"otel_memory\"\n"                                            \
  ".asciz \"" name                                                      \
  "\"\n"                                                                \
  ".asciz \"" arguments                                                 \
  "\"\n"                                                                \
  "994: .balign 4\n"                                                    \
  ".popsection\n"                                                       \
  ".ifndef granary_stapsdt_base\n"                                      \
  ".pushsection .stapsdt.base,\"aG\",%%progbits,.stapsdt.base,comdat\n" \
  ".weak granary_stapsdt_base\n"                                        \
  ".hidden granary_stapsdt_base\n"                                      \
  "granary_stapsdt_base: .space 1\n"                                    \
  ".size granary_stapsdt_base, 1\n"                                     \
  ".popsection\n"                                                       \
  ".endif\n"

GRANARY_ALWAYS_INLINE void ProbeAlloc(uint64_t address, uint64_t requested, uint64_t bytes) {
  __asm__ volatile(GRANARY_PROBE("alloc", "8@%[a] 8@%[b] 8@%[c]")
                   :
                   : [a] "r"(address), [b] "r"(requested), [c] "r"(bytes));
}

GRANARY_ALWAYS_INLINE void ProbeFree(uint64_t address, uint64_t bytes) {
  __asm__ volatile(GRANARY_PROBE("free", "8@%[a] 8@%[b]") : : [a] "r"(address), [b] "r"(bytes));
}

#undef GRANARY_PROBE

}  // namespace granary::samples
