// The twelve operators delete: null, and each form after the matching forms of new.
#include <malloc.h>

#include <new>

#include "../check.h"

namespace {

constexpr std::align_val_t kWide{512};
constexpr size_t kTop = size_t{16} << 20;

using Delete = void (*)(void*, size_t);

const Delete kPlain[] = {
    [](void* p, size_t) { ::operator delete(p); },
    [](void* p, size_t n) { ::operator delete(p, n); },
    [](void* p, size_t) { ::operator delete(p, std::nothrow); },
};
const Delete kPlainArray[] = {
    [](void* p, size_t) { ::operator delete[](p); },
    [](void* p, size_t n) { ::operator delete[](p, n); },
    [](void* p, size_t) { ::operator delete[](p, std::nothrow); },
};
const Delete kAligned[] = {
    [](void* p, size_t) { ::operator delete(p, kWide); },
    [](void* p, size_t n) { ::operator delete(p, n, kWide); },
    [](void* p, size_t) { ::operator delete(p, kWide, std::nothrow); },
};
const Delete kAlignedArray[] = {
    [](void* p, size_t) { ::operator delete[](p, kWide); },
    [](void* p, size_t n) { ::operator delete[](p, n, kWide); },
    [](void* p, size_t) { ::operator delete[](p, kWide, std::nothrow); },
};

template <typename Make>
void EachFormFrees(const Delete (&forms)[3], Make make) {
  for (Delete form : forms) {
    form(nullptr, HideSize(40));
    for (size_t size = 0; size <= kTop; size = size * 2 + 1) {
      void* block = make(HideSize(size));
      CHECK(block != nullptr);
      memset(block, 0x3c, size);
      form(Hide(block), size);
    }
  }
}

// C++ and C share one heap, and real programs rely on that.
void NewMeetsFreeAndMallocMeetsDelete() {
  free(Hide(::operator new(100)));
  free(Hide(::operator new(100, kWide)));
  ::operator delete(Hide(malloc(100)));
  ::operator delete(Hide(aligned_alloc(512, 1024)), kWide);
}

void TheUsableSizeIsAccepted() {
  for (size_t size = 1; size <= 100000; size = size * 3 / 2 + 1) {
    void* block = ::operator new(size);
    ::operator delete(Hide(block), malloc_usable_size(block));
  }
}

void DeletesAreReused() {
  for (int i = 0; i < 4096; ++i) {
    auto* block = static_cast<char*>(::operator new(kTop));
    block[i] = 1;
    ::operator delete(Hide(block), kTop);
  }
}

}  // namespace

int main() {
  EachFormFrees(kPlain, [](size_t n) { return ::operator new(n); });
  EachFormFrees(kPlain, [](size_t n) { return ::operator new(n, std::nothrow); });
  EachFormFrees(kPlainArray, [](size_t n) { return ::operator new[](n); });
  EachFormFrees(kPlainArray, [](size_t n) { return ::operator new[](n, std::nothrow); });
  EachFormFrees(kAligned, [](size_t n) { return ::operator new(n, kWide); });
  EachFormFrees(kAligned, [](size_t n) { return ::operator new(n, kWide, std::nothrow); });
  EachFormFrees(kAlignedArray, [](size_t n) { return ::operator new[](n, kWide); });
  EachFormFrees(kAlignedArray, [](size_t n) { return ::operator new[](n, kWide, std::nothrow); });
  NewMeetsFreeAndMallocMeetsDelete();
  TheUsableSizeIsAccepted();
  DeletesAreReused();
}
