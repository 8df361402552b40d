// The options that affect every object, each in a child that starts with it: zero, junk, realloc to
// size 0, no caches, and an abort instead of null.
#include <malloc.h>

#include "check.h"
#include "child.h"

namespace {

bool All(const unsigned char* p, size_t n, unsigned char byte) {
  for (size_t i = 0; i < n; ++i) {
    if (p[i] != byte) return false;
  }
  return true;
}

void Dirty(size_t size) {
  void* blocks[50];
  for (void*& p : blocks) {
    p = malloc(size);
    memset(p, 0xee, size);
  }
  for (void* p : blocks) free(p);
}

constexpr size_t kSizes[] = {1, 16, 100, 5000, 70000, 2000000};

void CheckZero() {
  for (size_t size : kSizes) {
    Dirty(size);
    auto* p = static_cast<unsigned char*>(malloc(size));
    CHECK(All(p, malloc_usable_size(p), 0));
    free(p);
    p = static_cast<unsigned char*>(aligned_alloc(64, size));
    CHECK(All(p, malloc_usable_size(p), 0));
    free(p);
  }
}

void CheckJunk() {
  for (size_t size : kSizes) {
    auto* p = static_cast<unsigned char*>(malloc(size));
    CHECK(All(p, size, 0xa5));
    free(p);
    p = static_cast<unsigned char*>(calloc(1, size));
    CHECK(All(p, size, 0));
    void* const keep = malloc(size);  // otherwise the slab would be freed
    free(p);
    if (size <= 5000) CHECK(All(p, size, 0x5a));
    free(keep);
  }
}

void CheckNoCache() {
  void* a = malloc(100);
  free(a);
  CHECK(malloc(100) == a);  // the lowest free object of the slab, and not a cached object
  Dirty(100);
}

void CheckZeroRealloc() {
  void* p = realloc(malloc(100), 0);
  CHECK(p != NULL);
  free(p);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) {
    if (strcmp(argv[1], "zero") == 0) CheckZero();
    if (strcmp(argv[1], "junk") == 0) CheckJunk();
    if (strcmp(argv[1], "cache") == 0) CheckNoCache();
    if (strcmp(argv[1], "realloc") == 0) CheckZeroRealloc();
    if (strcmp(argv[1], "oom") == 0) free(malloc(HideSize(SIZE_MAX / 4)));
    return 0;
  }
  if (OnSystemHeap()) return 0;
  const Setting rows[] = {{"GRANARY_CONF", "zero:true", "zero", false},
                          {"MALLOC_CONF", "zero:true", "zero", false},
                          {"GRANARY_CONF", "junk:true", "junk", false},
                          {"MALLOC_CONF", "junk:true", "junk", false},
                          {"GRANARY_CONF", "cache:false", "cache", false},
                          {"MALLOC_CONF", "tcache:false", "cache", false},
                          {"MALLOC_CONF", "zero_realloc:alloc", "realloc", false},
                          {"GRANARY_CONF", "abort_on_oom:true", "oom", true},
                          {"MALLOC_CONF", "xmalloc:true", "oom", true},
                          {"GRANARY_CONF", "abort_on_oom:false", "oom", false}};
  for (const Setting& row : rows) ExpectUnder(row);
  return 0;
}
