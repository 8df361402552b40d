// Allocation before any constructor has run: from .preinit_array, from the earliest constructors,
// from static initialisers that throw; and at exit from destructors and atexit handlers.
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../check.h"

namespace {

void* g_early[3];
int g_stages = 0;

void TakeAndCheck(void** place, uint64_t seed) {
  *place = malloc(5000);
  CHECK(*place != nullptr);
  FillPattern(*place, 5000, seed);
  void* passing = calloc(100, 100);
  CHECK(passing != nullptr && AllZero(passing, 10000));
  passing = realloc(passing, 300000);
  CHECK(passing != nullptr && AllZero(passing, 10000));
  free(passing);
  ++g_stages;
}

void BeforeEverything(int, char**, char**) { TakeAndCheck(&g_early[0], 0); }

__attribute__((section(".preinit_array"), used)) void (*g_preinit)(int, char**,
                                                                   char**) = BeforeEverything;

__attribute__((constructor(101))) void FirstConstructor() { TakeAndCheck(&g_early[1], 1); }
__attribute__((constructor)) void PlainConstructor() { TakeAndCheck(&g_early[2], 2); }

int ThrowAndCatch(int depth) {
  try {
    if (depth == 0) throw std::runtime_error(std::string(200, 'x'));
    return ThrowAndCatch(depth - 1) + 1;
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()).size() == 200);
    if (depth < 20) throw;
    return -1;
  }
}

int CatchAll() {
  try {
    return ThrowAndCatch(10);
  } catch (const std::exception&) {
    return 1;
  }
}

const int g_thrown = CatchAll();
const std::vector<std::string> g_names(1000, std::string(100, 'n'));
std::map<int, std::unique_ptr<std::string>> g_map = [] {
  std::map<int, std::unique_ptr<std::string>> map;
  for (int i = 0; i < 1000; ++i) map[i] = std::make_unique<std::string>(i, 'm');
  return map;
}();

struct Last {
  ~Last() {
    for (uint64_t i = 0; i < 3; ++i) {
      CHECK(PatternHolds(g_early[i], 5000, i));
      free(g_early[i]);
    }
    free(malloc(100000));
  }
} g_last;

void AtExit() {
  void* block = malloc(123456);
  CHECK(block != nullptr);
  free(block);
}

}  // namespace

int main() {
  CHECK(g_stages == 3);
  CHECK(g_thrown == 1);
  CHECK(g_names.size() == 1000 && g_names[999].size() == 100);
  CHECK(g_map.size() == 1000 && g_map[999]->size() == 999);
  CHECK(atexit(AtExit) == 0);
  for (uint64_t i = 0; i < 3; ++i) CHECK(PatternHolds(g_early[i], 5000, i));
  return 0;
}
