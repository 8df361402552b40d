// Exits 0 when malloc, free, malloc_usable_size and operator new come from the library whose file
// name ends in the argument: proof that a preload took effect.
#include <dlfcn.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

bool ComesFrom(const char* symbol, const char* want) {
  void* address = dlsym(RTLD_DEFAULT, symbol);
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0) {
    std::fprintf(stderr, "%s is not found; build the library with its symbols exported\n", symbol);
    return false;
  }
  if (std::strstr(info.dli_fname, want) != nullptr) return true;
  std::fprintf(stderr, "%s comes from %s, not from %s; check LD_PRELOAD\n", symbol, info.dli_fname,
               want);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  bool good = true;
  for (const char* symbol :
       {"malloc", "free", "calloc", "realloc", "malloc_usable_size", "_Znwm"}) {
    good = ComesFrom(symbol, argv[1]) && good;
  }
  void* block = std::malloc(100);
  good = good && malloc_usable_size(block) >= 100;
  std::free(block);
  return good ? 0 : 1;
}
