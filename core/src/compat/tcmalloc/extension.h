// The functions behind MallocExtension, for its C names and its C++ class.
#pragma once

#include <cstddef>

namespace granary::tcmalloc {

// The class as programs use it: an object whose first word points to its virtual table.
struct Extension {
  void* const* methods;
};

// Always the same object.
Extension* Instance() noexcept;

bool Verify(const void* p) noexcept;
bool VerifyAll() noexcept;
bool MemoryStats(int* blocks, size_t* total, int histogram[64]) noexcept;
void GetStats(char* buffer, int length) noexcept;
void ReleaseToSystem(size_t bytes) noexcept;
size_t ThreadCacheSize() noexcept;
size_t Estimate(size_t size) noexcept;
int Ownership(const void* p) noexcept;  // 1: Granary owns p, 2: it does not

}  // namespace granary::tcmalloc
