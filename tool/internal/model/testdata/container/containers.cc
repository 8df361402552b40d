// containers COUNT: fills containers one element at a time, and prints for each what it holds of
// the heap.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <new>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

static size_t live_bytes, live_blocks;

void* operator new(size_t n) {
  size_t* p = static_cast<size_t*>(malloc(n + 16));
  *p = n;
  live_bytes += n;
  live_blocks++;
  return p + 2;
}
void operator delete(void* p) noexcept {
  if (p == nullptr) return;
  size_t* block = static_cast<size_t*>(p) - 2;
  live_bytes -= *block;
  live_blocks--;
  free(block);
}
void operator delete(void* p, size_t) noexcept { operator delete(p); }

struct Odd {
  char bytes[3];
  bool operator<(const Odd& other) const { return __builtin_memcmp(bytes, other.bytes, 3) < 0; }
};

static Odd MakeOdd(size_t i) { return {{char(i >> 16), char(i >> 8), char(i)}}; }

static std::string Text(size_t i, int length) {
  char text[64];
  snprintf(text, sizeof(text), "%0*zu", length, i);
  return std::string(text, size_t(length));
}

template <class C, class Put>
void Fill(const char* line, size_t count, Put put) {
  const size_t bytes = live_bytes, blocks = live_blocks;
  C c;
  for (size_t i = 0; i < count; i++) put(c, i);
  printf("%s %zu %zu\n", line, live_bytes - bytes, live_blocks - blocks);
}

int main(int, char** argv) {
  const size_t n = strtoull(argv[1], nullptr, 10);
  Fill<std::vector<uint32_t>>("vector 4 1", n, [](auto& c, size_t i) { c.push_back(uint32_t(i)); });
  Fill<std::list<uint16_t>>("list 2 1", n, [](auto& c, size_t i) { c.push_back(uint16_t(i)); });
  Fill<std::set<Odd>>("set 3 1", n, [](auto& c, size_t i) { c.insert(MakeOdd(i)); });
  Fill<std::map<uint32_t, uint64_t>>("map 4 8", n, [](auto& c, size_t i) { c[uint32_t(i)] = i; });
  Fill<std::map<std::string, Odd>>("map string:20 3", n,
                                   [](auto& c, size_t i) { c.emplace(Text(i, 20), MakeOdd(i)); });
  Fill<std::unordered_map<uint64_t, uint64_t>>("unordered_map 8 8", n,
                                               [](auto& c, size_t i) { c[i] = i; });
  Fill<std::unordered_set<uint32_t>>("unordered_set 4 1", n,
                                     [](auto& c, size_t i) { c.insert(uint32_t(i)); });
  Fill<std::unordered_map<std::string, std::string>>(
      "unordered_map string:36 string:10", n,
      [](auto& c, size_t i) { c.emplace(Text(i, 36), Text(i, 10)); });
}
