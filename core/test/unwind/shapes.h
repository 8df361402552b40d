// The shapes of stacks that the test builds.
#ifndef GRANARY_TEST_UNWIND_SHAPES_H_
#define GRANARY_TEST_UNWIND_SHAPES_H_

struct Shape {
  const char* name;
  void (*run)();
};

void TestCalls();
void TestExceptions();
void TestSignals();
void TestEveryStep();
void TestStacks();
void TestThreads();
void TestNoTables();
void TestDamage();

#endif  // GRANARY_TEST_UNWIND_SHAPES_H_
