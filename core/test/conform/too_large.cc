// Every function refuses sizes beyond the address space with ENOMEM, just below SIZE_MAX, just
// above PTRDIFF_MAX and at each step between, right after a small object was freed: a sum that
// overflows must not become a small request.
#include <malloc.h>
#include <sys/resource.h>

#include <initializer_list>

#include "../check.h"

namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// A freed object is what an overflowed request would be given.
void FreeOne() {
  void* block = malloc(HideSize(16));
  CHECK(block != nullptr);
  free(Hide(block));
  errno = 0;
}

void Refused(void* block) {
  CHECK(block == nullptr);
  CHECK(errno == ENOMEM);
}

void ReallocRefuses(size_t count, size_t size) {
  void* block = malloc(16);
  FillPattern(block, 16, count);
  FreeOne();
  Refused(count == 1 ? realloc(block, HideSize(size)) : reallocarray(block, HideSize(count), size));
  CHECK(PatternHolds(block, 16, count));
  free(block);
}

void UnalignedFormsRefuse(size_t size) {
  FreeOne();
  Refused(malloc(HideSize(size)));
  ReallocRefuses(1, size);
  for (size_t count = 1; count <= 8 && size % count == 0; count *= 2) {
    FreeOne();
    Refused(calloc(HideSize(count), size / count));
    FreeOne();
    Refused(calloc(HideSize(size / count), count));
    ReallocRefuses(count, size / count);
    ReallocRefuses(size / count, count);
  }
}

void AlignedFormsRefuse(size_t size, size_t alignment) {
  FreeOne();
  Refused(memalign(HideSize(alignment), size));
  if (alignment % sizeof(void*) == 0) {
    void* block = nullptr;
    FreeOne();
    CHECK(posix_memalign(&block, HideSize(alignment), size) == ENOMEM);
    CHECK(block == nullptr);
  }
  if (size % alignment != 0) return;
  FreeOne();
  Refused(aligned_alloc(HideSize(alignment), size));
}

void PageFormsRefuse(size_t size) {
  FreeOne();
  Refused(valloc(HideSize(size)));
  FreeOne();
  Refused(pvalloc(HideSize(size)));
}

// Under an emulator a call costs ten times as much.
#ifdef GRANARY_EMULATED
constexpr size_t kStep = 61;
#else
constexpr size_t kStep = 3;
#endif

void AllRefuse(size_t size) {
  UnalignedFormsRefuse(size);
  PageFormsRefuse(size);
  for (size_t alignment = 1; alignment != 0; alignment *= 2) AlignedFormsRefuse(size, alignment);
}

void NearTheTopAllRefuse() {
  for (size_t below = 0; below < 1 << 14; below += kStep) AllRefuse(SIZE_MAX - below);
  for (size_t above = 1; above <= 1 << 14; above += kStep) AllRefuse(PTRDIFF_MAX + above);
  AllRefuse(-size_t{512} * 1024);
  AllRefuse(-kPage);
}

// No processor that Linux runs on has addresses of more than 57 bits. The limit says it for all.
void BeyondTheAddressSpaceAllRefuse() {
  constexpr size_t kBits = 50;
  const struct rlimit limit = {(size_t{1} << kBits) - 1, (size_t{1} << kBits) - 1};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  for (size_t top = (size_t{1} << (64 - kBits)) - 1; top >= 1; top -= top > kStep ? kStep : 1) {
    AllRefuse(top << kBits);
    AllRefuse((top << kBits) | ((size_t{1} << kBits) - 1));
  }
}

// Far more than the machine has memory, but not more than it has addresses: both ends can be used.
void AServedHugeBlockIsUsable() {
  for (size_t delta : {0, 1, 4095}) {
    const size_t size = (size_t{1} << 38) + delta;
    auto* block = static_cast<unsigned char*>(malloc(HideSize(size)));
    if (block == nullptr) continue;
    block[0] = 7;
    block[size - 1] = 9;
    CHECK(block[0] == 7 && block[size - 1] == 9);
    free(block);
  }
}

}  // namespace

int main() {
  CHECK(memalign(HideSize(SIZE_MAX), kPage) == nullptr && errno == EINVAL);
  AServedHugeBlockIsUsable();
  NearTheTopAllRefuse();
  BeyondTheAddressSpaceAllRefuse();
  void* block = malloc(1000);
  CHECK(block != nullptr);
  FillPattern(block, 1000, 1);
  free(block);
}
