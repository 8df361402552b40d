// Stacks of every shape, compiled in several variants (core/test/unwind.cmake): the walker of the
// heap profiles must find the same frames as the compiler's own unwinder.
#include "../check.h"
#include "compare.h"
#include "shapes.h"

int main() {
  granary::unwind::Refresh();
  const Shape shapes[] = {
      {"calls", TestCalls},          {"exceptions", TestExceptions}, {"signals", TestSignals},
      {"every step", TestEveryStep}, {"stacks", TestStacks},         {"threads", TestThreads},
      {"no tables", TestNoTables},   {"damage", TestDamage},
  };
  for (const Shape& shape : shapes) {
    const unsigned before = g_comparisons;
    shape.run();
    printf("%s: %u stacks compared\n", shape.name, g_comparisons - before);
    fflush(stdout);
  }
}
