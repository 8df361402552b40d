#include "arena/shared_regions.h"

#include <atomic>
#include <span>

#include "arena/arenas.h"
#include "base/units.h"
#include "os/linux.h"
#include "os/region_hooks.h"
#include "os/spin_lock.h"

namespace granary {
namespace {

// The heap's regions of 2 MiB that came from hooks, in the chunks in which they came.
struct Chunk {
  std::atomic<uintptr_t> at{0};
  std::atomic<size_t> bytes{0};  // 0 for none
  ExtentHooks* hooks = nullptr;
  bool zero = true, committed = true;

  bool Has(const void* p) const noexcept {
    return AddressOf(p) - at.load(std::memory_order_relaxed) <
           bytes.load(std::memory_order_acquire);
  }
  void* Start() const noexcept {
    return reinterpret_cast<void*>(at.load(std::memory_order_relaxed));
  }
};

constexpr size_t kMostChunks = 512;
Chunk* chunks;  // in memory of its own, as few programs have any
SpinLock chunks_lock;
std::atomic<ExtentHooks*> asked{nullptr};

Chunk* ChunkOf(const void* p) {
  for (Chunk& chunk : std::span(chunks, kMostChunks)) {
    if (chunk.Has(p)) return &chunk;
  }
  return nullptr;
}

void Return(ExtentHooks* hooks, void* p, size_t bytes, bool committed) {
  if (hooks->dalloc != nullptr && !hooks->dalloc(hooks, p, bytes, committed, 0)) return;
  if (hooks->destroy != nullptr) hooks->destroy(hooks, p, bytes, committed, 0);
}

void* Reserve(size_t bytes, size_t alignment) {
  ExtentHooks* const hooks = asked.load(std::memory_order_acquire);
  bool zero = true, committed = true;
  void* p = hooks->alloc(hooks, nullptr, bytes, alignment, &zero, &committed, 0);
  if (p == nullptr) return nullptr;
  constexpr uintptr_t kFlagBits = 0xff;  // later versions of jemalloc let hooks put flags there
  p = reinterpret_cast<void*>(AddressOf(p) & ~kFlagBits);
  Locked hold(chunks_lock);
  for (Chunk& chunk : std::span(chunks, kMostChunks)) {
    if (chunk.bytes.load(std::memory_order_relaxed) != 0 || AddressOf(p) % alignment != 0) continue;
    chunk.at.store(AddressOf(p), std::memory_order_relaxed);
    chunk.hooks = hooks;
    chunk.zero = zero;
    chunk.committed = committed;
    chunk.bytes.store(bytes, std::memory_order_release);
    return p;
  }
  Return(hooks, p, bytes, committed);
  return nullptr;
}

bool Commit(void* p, size_t bytes) {
  Chunk& chunk = *ChunkOf(p);
  ExtentHooks* const hooks = chunk.hooks;
  const size_t offset = AddressOf(p) - chunk.at.load(std::memory_order_relaxed);
  const size_t all = chunk.bytes.load(std::memory_order_relaxed);
  if (!chunk.committed &&
      (hooks->commit == nullptr || hooks->commit(hooks, chunk.Start(), all, offset, bytes, 0))) {
    return false;
  }
  if (!chunk.zero) __builtin_memset(p, 0, bytes);
  return true;
}

void Unmap(void* p, size_t bytes) {
  Chunk& chunk = *ChunkOf(p);
  ExtentHooks* const hooks = chunk.hooks;
  const bool committed = chunk.committed;
  {
    Locked hold(chunks_lock);
    chunk.bytes.store(0, std::memory_order_release);
  }
  Return(hooks, p, bytes, committed);
}

bool Purge(void* p, size_t bytes) {
  const Chunk& chunk = *ChunkOf(p);
  ExtentHooks* const hooks = chunk.hooks;
  const size_t offset = AddressOf(p) - chunk.at.load(std::memory_order_relaxed);
  return hooks->purge_forced != nullptr &&
         !hooks->purge_forced(hooks, chunk.Start(), chunk.bytes.load(std::memory_order_relaxed),
                              offset, bytes, 0);
}

}  // namespace

ExtentHooks* HooksOfSharedHeap() noexcept {
  ExtentHooks* const hooks = asked.load(std::memory_order_acquire);
  return hooks == nullptr ? SharedHooks() : hooks;
}

bool SetHooksOfSharedHeap(ExtentHooks* hooks) noexcept {
  static RegionHooks functions;
  if (chunks == nullptr) {
    chunks = static_cast<Chunk*>(Linux::Map(sizeof(Chunk) * kMostChunks, 64 * kKiB, nullptr));
    if (chunks == nullptr) return false;
  }
  asked.store(hooks == SharedHooks() ? nullptr : hooks, std::memory_order_release);
  if (region_hooks != nullptr || hooks == SharedHooks()) return true;
  functions = {[] { return asked.load(std::memory_order_relaxed) != nullptr; },
               Reserve,
               [](const void* p) { return ChunkOf(p) != nullptr; },
               Commit,
               Unmap,
               Purge};
  region_hooks = &functions;
  return true;
}

}  // namespace granary
