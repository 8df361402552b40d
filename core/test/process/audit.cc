// Conservation: live, cached and slab_free add up to used spans, to the byte. Spans, dirty memory
// and metadata add up to the kernel's resident memory within a hundredth.
#include <malloc.h>

#include <map>
#include <string>
#include <vector>

#include "../check.h"

namespace {

using Figures = std::map<std::string, size_t>;

Figures Measure() {
  char* text = nullptr;
  size_t size = 0;
  FILE* out = open_memstream(&text, &size);
  CHECK(out != nullptr && malloc_info(0, out) == 0);
  fclose(out);
  Figures figures;
  for (const char* at = text; (at = strstr(at, "<granary name=\"")) != nullptr; ++at) {
    char name[64];
    size_t value;
    CHECK(sscanf(at, "<granary name=\"%63[^\"]\" unit=\"%*[a-z]\" value=\"%zu\"", name, &value) ==
          2);
    figures[name] = value;
  }
  free(text);
  return figures;
}

size_t AnonymousBytes() {
  FILE* file = fopen("/proc/self/smaps_rollup", "r");
  CHECK(file != nullptr);
  char line[256];
  size_t kib = 0;
  while (fgets(line, sizeof(line), file) != nullptr) {
    if (sscanf(line, "Anonymous: %zu", &kib) == 1) break;
  }
  fclose(file);
  return kib << 10;
}

size_t InUse(Figures& f) { return f["live"] + f["cached"] + f["depot"] + f["slab_free"]; }

void SumsAgree() {
  Figures f = Measure();
  CHECK(f["used_spans"] > 0);
  CHECK(InUse(f) == f["used_spans"]);
}

}  // namespace

int main() {
  if (OnSystemHeap()) SkipTest("the figures are Granary's own.");
  SumsAgree();
  const size_t anonymous_before = AnonymousBytes();
  Figures before = Measure();
  uint64_t random = 7;
  std::vector<void*> blocks;
  for (size_t bytes = 0; bytes < size_t{192} << 20;) {
    const size_t size = 16 + NextRandom(&random) % (NextRandom(&random) % 64 == 0 ? 100000 : 2000);
    blocks.push_back(malloc(size));
    CHECK(blocks.back() != nullptr);
    memset(blocks.back(), 1, malloc_usable_size(blocks.back()));
    bytes += size;
  }
  SumsAgree();
  Figures full = Measure();
  const size_t told = full["used_spans"] + full["dirty"] - before["used_spans"] - before["dirty"];
  const size_t counted = AnonymousBytes() - anonymous_before;
  const size_t apart = told > counted ? told - counted : counted - told;
  // Beside the objects: trackers and slab descriptors, the page map, and the untouched ends of
  // slabs.
  CHECK(apart < counted / 100 + (size_t{4} << 20));
  for (size_t i = 0; i < blocks.size(); i += 2) free(blocks[i]);
  SumsAgree();
  for (size_t i = 1; i < blocks.size(); i += 2) free(blocks[i]);
  SumsAgree();
}
