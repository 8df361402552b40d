// Registers and stacks that lead to random addresses: a walk terminates, and reads only mapped
// memory.
#include <errno.h>
#include <sys/mman.h>

#include "../check.h"
#include "compare.h"
#include "shapes.h"

namespace {

using granary::unwind::Here;
using granary::unwind::Registers;

uintptr_t Anything(uint64_t* seed, const Registers& here, uintptr_t edge) {
  const uint64_t random = NextRandom(seed);
  const uintptr_t near = random >> 32 & 0xfff8;
  switch (random % 8) {
    case 0:
      return random >> 8;
    case 1:
      return 0;
    case 2:
      return edge - near % 256;
    case 3:
      return here.pc + (random >> 40);
    case 4:
      return here.pc - (random >> 44);
    case 5:
      return ~uintptr_t{0} - near % 64;
    default:
      return here.sp + near;
  }
}

}  // namespace

void TestDamage() {
  char* const pages = static_cast<char*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(pages != MAP_FAILED && mprotect(pages + 4096, 4096, PROT_NONE) == 0);
  const auto edge = reinterpret_cast<uintptr_t>(pages + 4096);
  const Registers here = Here();
  uint64_t seed = 1;
  Stack stack;
  for (int i = 0; i < 100000; ++i) {
    for (size_t at = 0; at < 4096; at += 8 * (1 + NextRandom(&seed) % 64)) {
      const uintptr_t word = Anything(&seed, here, edge);
      memcpy(pages + at, &word, sizeof word);
      if (i % 16 != 0) break;
    }
    Registers start;
    start.pc = Anything(&seed, here, edge);
    start.sp = Anything(&seed, here, edge);
    start.fp = Anything(&seed, here, edge);
    start.extra = Anything(&seed, here, edge);
    errno = 4711;
    WalkFrom(start, &stack);
    CHECK(errno == 4711 && stack.count <= Stack::kMost);
  }
  CHECK(munmap(pages, 8192) == 0);
  ExpectSame("after all that");
}
