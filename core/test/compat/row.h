// Tests with one row per use of jemalloc's interface by known programs. Each ROW is a ctest test,
// compat.NAME, and its text says what those programs rely on. Without an argument a program here
// runs all its rows, one after another.
#pragma once

#include <jemalloc/jemalloc.h>

#include <string>

#include "../check.h"

#pragma weak mallctl
#pragma weak mallctlbymib
#pragma weak mallctlnametomib
#pragma weak mallocx
#pragma weak dallocx
#pragma weak sdallocx
#pragma weak nallocx

struct Row {
  const char* name;
  void (*check)();
};

inline Row rows[32];
inline int row_count = 0;

struct Registration {
  Registration(const char* name, void (*check)()) { rows[row_count++] = {name, check}; }
};

#define ROW_AT(name, line) ROW_AT_(name, line)
#define ROW_AT_(name, line)                                 \
  static void Row##line();                                  \
  static const Registration row_at_##line(name, Row##line); \
  static void Row##line()
#define ROW(name) ROW_AT(name, __LINE__)

// A name with an index in the place of its "#". It allocates nothing, for the rows that check
// figures.
struct Name {
  char text[96];
  const char* c_str() const { return text; }
};

inline Name Of(const char* name, size_t index) {
  Name of;
  const char* const mark = strchr(name, '#');
  snprintf(of.text, sizeof of.text, "%.*s%zu%s", static_cast<int>(mark - name), name, index,
           mark + 1);
  return of;
}

inline const char* Text(const char* name) { return name; }
inline const char* Text(const Name& name) { return name.text; }
inline const char* Text(const std::string& name) { return name.c_str(); }

template <class T, class N>
T Get(const N& name) {
  T value{};
  size_t size = sizeof value;
  const int error = mallctl(Text(name), &value, &size, nullptr, 0);
  if (error != 0 || size != sizeof value) {
    fprintf(stderr, "mallctl(\"%s\"): error %d, size %zu\n", Text(name), error, size);
    CHECK(!"a name could not be read");
  }
  return value;
}

template <class T, class N>
int Set(const N& name, T value) {
  return mallctl(Text(name), nullptr, nullptr, &value, sizeof value);
}

template <class N>
int Do(const N& name) {
  return mallctl(Text(name), nullptr, nullptr, nullptr, 0);
}

inline void Refresh() { CHECK(Set("epoch", uint64_t{1}) == 0); }

inline unsigned NewArena() { return Get<unsigned>("arenas.create"); }

int main(int count, char** arguments) {
  if (OnSystemHeap()) SkipTest("the library is not loaded.");
  bool found = count < 2;
  for (int i = 0; i < row_count; ++i) {
    if (count >= 2 && strcmp(arguments[1], rows[i].name) != 0) continue;
    found = true;
    rows[i].check();
  }
  CHECK(found);
  return 0;
}
