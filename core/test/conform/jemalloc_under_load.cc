// Programs compute differences of unsigned numbers, sums and quotients from jemalloc's figures
// without a check. All of these must be valid at every epoch while four threads allocate.
#include <jemalloc/jemalloc.h>
#include <malloc.h>
#include <pthread.h>

#include <atomic>
#include <string>

#include "check.h"

#pragma weak mallctl
#pragma weak malloc_stats_print

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 16;
std::atomic<bool> done{false};

void* Load(void* seed) {
  auto state = static_cast<unsigned>(reinterpret_cast<uintptr_t>(seed));
  void* held[500] = {};
  while (!done) {
    state = state * 1664525 + 1013904223;
    void*& p = held[(state >> 8) % 500];
    free(p);
    const unsigned kind = (state >> 24) % 64;
    p = malloc(1 + state % (kind == 0 ? 3000000 : kind < 4 ? 200000 : 2000));
  }
  for (void* p : held) free(p);
  return nullptr;
}

template <class T>
T Get(const char* name) {
  T value{};
  size_t size = sizeof value;
  CHECK(mallctl(name, &value, &size, nullptr, 0) == 0);
  return value;
}

template <class T>
T GetOf(const char* format, unsigned arena, const char* figure) {
  char name[80];
  snprintf(name, sizeof name, format, arena, figure);
  return Get<T>(name);
}

size_t OfArena(unsigned arena, const char* figure) {
  return GetOf<size_t>("stats.arenas.%u.%s", arena, figure);
}

void CheckTotals() {
  const auto allocated = Get<size_t>("stats.allocated"), active = Get<size_t>("stats.active");
  CHECK(allocated <= active);
  CHECK(active + Get<size_t>("stats.metadata") <= Get<size_t>("stats.resident"));
  CHECK(Get<size_t>("stats.resident") <= Get<size_t>("stats.mapped"));
  for (const char* figure : {"small.allocated", "large.allocated", "pactive", "pdirty"}) {
    size_t sum = 0;
    for (unsigned i = 0; i < Get<unsigned>("arenas.narenas"); ++i) {
      if (GetOf<bool>("arena.%u.%s", i, "initialized")) sum += OfArena(i, figure);
    }
    CHECK(sum == OfArena(4096, figure));
  }
  CHECK(OfArena(4096, "small.allocated") + OfArena(4096, "large.allocated") == allocated);
}

void CheckBins() {
  for (unsigned j = 0; j < Get<unsigned>("arenas.nbins"); ++j) {
    const auto bin = [j](const char* figure) {
      return GetOf<size_t>("stats.arenas.4096.bins.%u.%s", j, figure);
    };
    const auto regions = GetOf<uint32_t>("arenas.bin.%u.%s", j, "nregs");
    CHECK(bin("curslabs") * regions >= bin("curregs"));
    CHECK(bin("nonfull_slabs") <= bin("curslabs"));
    CHECK(bin("nmalloc") - bin("ndalloc") == bin("curregs"));
  }
}

std::string Printed(const char* letters) {
  std::string text;
  text.reserve(size_t{1} << 20);  // otherwise the output would include its own growth
  malloc_stats_print(
      [](void* to, const char* piece) { static_cast<std::string*>(to)->append(piece); }, &text,
      letters);
  return text;
}

// Checks that brackets match and that nothing follows the last bracket.
bool Nests(const std::string& json) {
  std::string open;
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '{' || c == '[') open += c;
    if (c != '}' && c != ']') continue;
    if (open.empty() || open.back() != (c == '}' ? '{' : '[')) return false;
    open.pop_back();
    if (open.empty()) return i + 2 == json.size() && json[i + 1] == '\n';
  }
  return false;
}

void CheckPrints() {
  const std::string json = Printed("J"), text = Printed("");
  CHECK(json.rfind("{\"jemalloc\":{\"version\":", 0) == 0 && Nests(json));
  for (const char* key : {"\"system\":{\"thp_mode\":\"", "\"ctl\":{\"num_ops\":0,", "\"merged\":{",
                          "\"extents\":[{\"ndirty\":0,", "\"0\":{\"name\":\"", "\"mutex\":{"}) {
    CHECK(json.find(key) != std::string::npos);
  }
  CHECK(Nests(Printed("Jgmablxe")) && Printed("Jx").find("num_ops") == std::string::npos);
  CHECK(text.rfind("___ Begin jemalloc statistics ___\n", 0) == 0);
  for (const char* line : {"\nAllocated: ", "\nMerged arenas stats:\n", "\narenas[0]:\n"}) {
    CHECK(text.find(line) != std::string::npos);
  }
  CHECK(text.find("--- End jemalloc statistics ---\n") + 32 == text.size());
}

}  // namespace

int main() {
  if (mallctl == nullptr) return 0;  // a build without jemalloc's names
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], nullptr, Load, reinterpret_cast<void*>(i)) == 0);
  }
  for (int round = 0; round < kRounds; ++round) {
    uint64_t epoch = 1;
    CHECK(mallctl("epoch", nullptr, nullptr, &epoch, sizeof epoch) == 0);
    CheckTotals();
    CheckBins();
    if (round % 8 == 0) CheckPrints();
    const struct mallinfo2 info = mallinfo2();
    CHECK(info.uordblks <= info.arena + info.hblkhd);
  }
  done = true;
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
}
