// KIND BYTES: commits one kind of misuse on an object of so many bytes. Prints "missed" if nothing
// stopped it before the end of the program. The kinds are those of the security folder of
// mimalloc-bench. `--list` prints the kinds and their sizes.
#include <alloca.h>

#include <string>

#include "../check.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20, kGiB = size_t{1} << 30;

void Missed() { SayRaw("missed\n", 7); }

char* Object(size_t size) {
  char* const p = static_cast<char*>(Hide(malloc(size)));
  CHECK(p != nullptr);
  return p;
}

// Reads back what it writes, as an addition to what was there.
template <ptrdiff_t kBytes>
void Beyond(size_t size) {
  char* const p = Object(size);
  char* const at = kBytes > 0 ? p + size - 1 + kBytes : p + kBytes;
  char* volatile const place = at;
  *place = static_cast<char>(*place ^ 0x41);
  free(Hide(p));
  Missed();
}

template <ptrdiff_t kBytes>
void CopyBeyond(size_t size) {
  static char source[2 * kMiB];
  char* const p = Object(size);
  memcpy(Hide(kBytes > 0 ? p : p + kBytes), source, HideSize(kBytes > 0 ? size + kBytes : size));
  Missed();
}

void DoubleFree(size_t size) {
  char* const p = Object(size);
  free(p);
  free(Hide(p));
  Missed();
}

void DoubleFreeDelayed(size_t size) {
  char* const p = Object(size);
  free(p);
  for (int i = 0; i < 1024; ++i) free(Object(size));
  free(Hide(p));
  Missed();
}

void DoubleFreeInterleaved(size_t size) {
  char *const p = Object(size), *const q = Object(size);
  free(p);
  free(q);
  free(Hide(p));
  Missed();
}

void DoubleFreeThenUse(size_t size) {
  char* const p = Object(size);
  free(p);
  free(Hide(p));
  for (int i = 0; i < 256 * 1024; ++i) free(Object(size));
  Missed();
}

void DoubleFreeAfterReuse(size_t size) {
  char* const p = Object(size);
  free(p);
  char* const q = Object(size);
  free(Hide(p));
  free(q);
  Missed();
}

void RunHeap(size_t) {
#if defined(__aarch64__)
  const unsigned char code[] = {0xc0, 0x03, 0x5f, 0xd6};  // ret
#else
  const unsigned char code[] = {0x90, 0xc3};  // nop; ret
#endif
  char* const p = Object(8);
  memcpy(p, code, sizeof code);
  __builtin___clear_cache(p, p + sizeof code);
  reinterpret_cast<void (*)()>(Hide(p))();
  Missed();
}

void ImpossibleSize(size_t) {
  if (void* const p = Hide(malloc(HideSize(size_t{0} - 2))); p != nullptr) Missed();
}

void FreeNumber(size_t) {
  free(reinterpret_cast<void*>(HideSize(1)));
  Missed();
}

void FreeAlloca(size_t size) {
  free(Hide(alloca(size)));
  Missed();
}

void FreeStack(size_t) {
  char array[8];
  free(Hide(array));
  Missed();
}

template <size_t kBytes>
void FreeInside(size_t size) {
  free(Hide(Object(size) + kBytes));
  Missed();
}

void Reuse(size_t size) {
  char* const p = Object(size);
  free(p);
  if (Object(size) == Hide(p)) Missed();
}

void ReuseSmaller(size_t size) {
  char* const p = Object(size);
  free(p);
  if (Object(size / 2) == Hide(p)) Missed();
}

void ReuseByRealloc(size_t) {
  char* const p = Object(8);
  if (realloc(p, 1024) == Hide(p)) Missed();
}

template <bool kWrite, bool kFree>
void UseEmpty(size_t) {
  volatile char* const p = static_cast<char*>(Hide(malloc(HideSize(0))));
  if (p == nullptr) return;
  if (kWrite)
    *p = 'A';
  else
    (void)*p;
  if (kFree) free(Hide(const_cast<char*>(p)));
  Missed();
}

void WriteAfterFree(size_t size) {
  char* const p = Object(size);
  free(p);
  memset(Hide(p), 'A', size);
  Missed();
}

void WriteAfterFreeThenReuse(size_t size) {
  char* const p = Object(size);
  free(p);
  memset(Hide(p), 'A', size);
  for (int i = 0; i < 256 * 1024; ++i) free(Object(size));
  Missed();
}

void ReadAfterFree(size_t size) {
  char* const p = Object(size);
  memset(p, 'A', size);
  free(p);
  if (!AllZero(Hide(p), size)) Missed();
}

void ReadFresh(size_t size) {
  if (!AllZero(Object(size), size)) Missed();
}

struct Nine {
  size_t words[9];
};

void DeleteAsLarger(size_t) {
  delete static_cast<Nine*>(Hide(new char));
  Missed();
}

template <class T>
void DeleteAsArray(size_t) {
  delete[] static_cast<T*>(Hide(new T));
  Missed();
}

template <class T>
void DeleteArray(size_t) {
  delete static_cast<T*>(Hide(new T[4096]));
  Missed();
}

struct Kind {
  const char* name;
  void (*commit)(size_t);
  bool sized = true;
};

constexpr Kind kKinds[] = {
    {"write 1 byte beyond", Beyond<1>},
    {"write 32 bytes beyond", Beyond<32>},
    {"write 1 MiB beyond", Beyond<kMiB>},
    {"write 1 byte before", Beyond<-1>},
    {"write 32 bytes before", Beyond<-32>},
    {"write 1 MiB before", Beyond<-ptrdiff_t{kMiB}>},
    {"copy 1 byte beyond", CopyBeyond<1>},
    {"copy 32 bytes beyond", CopyBeyond<32>},
    {"copy 1 MiB beyond", CopyBeyond<kMiB>},
    {"copy 1 byte before", CopyBeyond<-1>},
    {"copy 32 bytes before", CopyBeyond<-32>},
    {"copy 1 MiB before", CopyBeyond<-ptrdiff_t{kMiB}>},
    {"double free", DoubleFree},
    {"double free, 1,024 pairs later", DoubleFreeDelayed},
    {"double free, another free between", DoubleFreeInterleaved},
    {"double free, then 262,144 pairs", DoubleFreeThenUse},
    {"double free of a reused object", DoubleFreeAfterReuse},
    {"free of the number 1", FreeNumber},
    {"free of alloca", FreeAlloca},
    {"free of a local array", FreeStack},
    {"free of p + 1", FreeInside<1>},
    {"free of p + 8", FreeInside<8>},
    {"free of p + 4 KiB", FreeInside<4096>},
    {"free of p + 1 GiB", FreeInside<kGiB>},
    {"run code of the heap", RunHeap},
    {"malloc of SIZE_MAX - 1", ImpossibleSize},
    {"malloc returns the last freed", Reuse},
    {"malloc of half returns it", ReuseSmaller},
    {"realloc to 1,024 stays", ReuseByRealloc},
    {"read malloc(0)", UseEmpty<false, false>},
    {"read malloc(0), free", UseEmpty<false, true>},
    {"write malloc(0)", UseEmpty<true, false>},
    {"write malloc(0), free", UseEmpty<true, true>},
    {"write after free", WriteAfterFree},
    {"write after free, then 262,144 pairs", WriteAfterFreeThenReuse},
    {"read after free", ReadAfterFree},
    {"read what malloc returned", ReadFresh},
    {"delete as a larger type", DeleteAsLarger, false},
    {"new char, delete[]", DeleteAsArray<char>, false},
    {"new string, delete[]", DeleteAsArray<std::string>, false},
    {"new char[], delete", DeleteArray<char>, false},
    {"new string[], delete", DeleteArray<std::string>, false},
};

constexpr size_t kSizes[] = {8, 4096, 256 * 1024};

int List() {
  for (const Kind& kind : kKinds) {
    for (const size_t size : kSizes) {
      if (kind.sized || size == kSizes[0]) printf("%s\t%zu\n", kind.name, kind.sized ? size : 0);
    }
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && strcmp(arguments[1], "--list") == 0) return List();
  CHECK(count == 3);
  for (const Kind& kind : kKinds) {
    if (strcmp(kind.name, arguments[1]) != 0) continue;
    kind.commit(strtoull(arguments[2], nullptr, 10));
    return 0;
  }
  CHECK(!"a kind that --list prints");
}
