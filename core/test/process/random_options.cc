// Random sets of options x random programs: each program runs in a process that starts with its
// set, with a seed that --seed repeats. Allocations may fail, but no object is damaged. --sets N
// for more of them.
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>

#include <type_traits>

#include "../check.h"
#include "../child.h"

extern "C" int granary_set_options(const char* text) __attribute__((weak));
extern "C" size_t granary_release_free_memory() __attribute__((weak));

namespace {

struct Row {
  const char* name;
  bool at_run_time;
  int64_t lowest, highest;
  bool is_path;
};
struct PathSize;

constexpr Row kRows[] = {
#define OPTION(name, type, value, lowest, highest, at_run_time, ...) \
  {#name, at_run_time, lowest, highest, std::is_same_v<type, PathSize>},
#include "../../src/config/options.def"
#undef OPTION
};

// Their purpose is to end the program.
constexpr const char* kEnders[] = {"abort_on_oom", "infallible_new"};

bool Ends(const char* name) {
  for (const char* ender : kEnders) {
    if (strcmp(name, ender) == 0) return true;
  }
  return false;
}

// The bounds, the values beside them, and all powers of two are as likely as each other.
int64_t RandomValue(const Row& row, uint64_t* random) {
  if (NextRandom(random) % 8 == 0) return NextRandom(random) % 2 == 0 ? row.lowest : row.highest;
  const uint64_t span = static_cast<uint64_t>(row.highest) - static_cast<uint64_t>(row.lowest);
  const uint64_t width = NextRandom(random) % 48;
  const uint64_t above = NextRandom(random) & ((uint64_t{1} << width) - 1);
  return row.lowest + static_cast<int64_t>(span == UINT64_MAX ? above : above % (span + 1));
}

// Options and their values. Under a hard limit nothing here may need the heap.
struct Set {
  char text[4096] = "";
  size_t size = 0;

  void Add(const Row& row, int64_t value) {
    const bool boolean = row.lowest == 0 && row.highest == 1;
    const char* const separator = size == 0 ? "" : ",";
    const char* const word = value != 0 ? "true" : "false";
    const size_t room = sizeof text - size;
    size += static_cast<size_t>(
        row.is_path ? snprintf(text + size, room, "%s%s:/tmp/random_options", separator, row.name)
        : boolean   ? snprintf(text + size, room, "%s%s:%s", separator, row.name, word)
                    : snprintf(text + size, room, "%s%s:%lld", separator, row.name,
                               static_cast<long long>(value)));
    CHECK(size < sizeof text);
  }
};

Set RandomSet(uint64_t* random, bool at_run_time) {
  Set set;
  for (const Row& row : kRows) {
    if (NextRandom(random) % 4 != 0 || Ends(row.name) || (at_run_time && !row.at_run_time))
      continue;
    set.Add(row, RandomValue(row, random));
  }
  return set;
}

struct Block {
  void* p = nullptr;
  size_t size = 0;
  uint64_t seed = 0;
};

struct Program {
  static constexpr size_t kMost = 300;
  uint64_t random = 0;
  unsigned largest = 8;  // log2 of the largest size
  size_t steps = 0, used = 1;
  Block blocks[kMost];
};

void Release(Block& block) {
  if (block.p != nullptr) CHECK(PatternHolds(block.p, block.size, block.seed));
  free(block.p);
  block = {};
}

void Store(Block& block, void* p, size_t size, uint64_t seed) {
  if (p == nullptr) return;
  CHECK(malloc_usable_size(p) >= size);
  FillPattern(p, size, seed);
  block = {p, size, seed};
}

void Resize(Block& block, size_t size, uint64_t seed) {
  if (size == 0) return;
  void* const p = realloc(block.p, size);
  if (p == nullptr) return;
  CHECK(block.p == nullptr || PatternHolds(p, size < block.size ? size : block.size, block.seed));
  Store(block, p, size, seed);
}

void Step(Program& program) {
  uint64_t* const random = &program.random;
  Block& block = program.blocks[NextRandom(random) % program.used];
  const size_t size = RandomSize(random, program.largest);
  const uint64_t seed = NextRandom(random);
  const uint64_t choice = NextRandom(random) % 64;
  if (choice < 8) return Resize(block, size, seed);
  Release(block);
  if (choice < 48) return Store(block, malloc(size), size, seed);
  if (choice < 56) {
    void* const p = calloc(1, size);
    CHECK(p == nullptr || AllZero(p, size));
    return Store(block, p, size, seed);
  }
  if (choice < 60)
    return Store(block, memalign(size_t{8} << NextRandom(random) % 14, size), size, seed);
  if (choice == 60) granary_release_free_memory();
  if (choice == 61) granary_set_options(RandomSet(random, true).text);
}

void* Run(void* argument) {
  Program program = *static_cast<Program*>(argument);
  for (size_t i = 0; i < program.steps; ++i) Step(program);
  for (Block& block : program.blocks) Release(block);
  return nullptr;
}

void RunInChild(Program& program) {
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    EndIfStuck();
    Run(&program);
    exit(0);
  }
  ExpectCleanChild(child);
}

int RunProgram(uint64_t seed) {
  EndIfStuck();
  uint64_t random = seed;
  Program program;
  program.random = NextRandom(&random);
  program.largest = static_cast<unsigned>(8 + NextRandom(&random) % 16);
  program.steps = 500 + NextRandom(&random) % 3000;
  program.used = 1 + NextRandom(&random) % Program::kMost;
  pthread_t threads[4];
  static Program programs[4];
  const size_t count = NextRandom(&random) % 5;
  size_t started = 0;
  for (; started < count; ++started) {
    programs[started] = program;
    programs[started].random = NextRandom(&random);
    if (pthread_create(&threads[started], nullptr, Run, &programs[started]) != 0) break;
  }
  if (NextRandom(&random) % 4 == 0) RunInChild(program);
  Run(&program);
  for (size_t i = 0; i < started; ++i) CHECK(pthread_join(threads[i], nullptr) == 0);
  return 0;
}

// Reports go to a file that only a failure prints: options such as stats_at_exit write much.
pid_t Start(uint64_t seed, const Set& set, const char* report) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child != 0) return child;
  setenv("GRANARY_CONF", set.text, 1);
  char number[32];
  snprintf(number, sizeof number, "%llu", static_cast<unsigned long long>(seed));
  if (freopen(report, "w", stderr) == nullptr) _exit(98);
  execl("/proc/self/exe", "program", number, static_cast<char*>(nullptr));
  _exit(99);
}

void Print(const char* path) {
  char text[4096];
  FILE* const file = fopen(path, "r");
  if (file == nullptr) return;
  const size_t size = fread(text, 1, sizeof text, file);
  fclose(file);
  SayRaw(text, size);
}

int RunSets(size_t sets, uint64_t seed) {
  char report[] = "/tmp/granary-random-options-XXXXXX";
  CHECK(mkstemp(report) >= 0);
  size_t failed = 0;
  for (size_t i = 0; i < sets; ++i) {
    const uint64_t own_seed = seed + i;
    uint64_t random = own_seed;
    const Set set = RandomSet(&random, false);
    const int status = WaitFor(Start(own_seed, set, report));
    if (status == 0) continue;
    ++failed;
    fprintf(stderr, "status %x: --seed %llu, GRANARY_CONF=%s\n", static_cast<unsigned>(status),
            static_cast<unsigned long long>(own_seed), set.text);
    Print(report);
  }
  unlink(report);
  printf("%zu sets of options x programs, %zu failed\n", sets, failed);
  return failed == 0 ? 0 : kExitFailed;
}

}  // namespace

int main(int count, char** arguments) {
  if (OnSystemHeap()) SkipTest("the C library's heap has other options.");
  if (strcmp(arguments[0], "program") == 0) return RunProgram(strtoull(arguments[1], nullptr, 10));
  size_t sets = 60;
  uint64_t seed = 1;
  for (int i = 1; i + 1 < count; i += 2) {
    const uint64_t value = strtoull(arguments[i + 1], nullptr, 0);
    if (strcmp(arguments[i], "--sets") == 0) sets = value;
    if (strcmp(arguments[i], "--seed") == 0) seed = value;
  }
  return RunSets(sets, seed);
}
