#include "stacks.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach.h"
#include "maps.h"
#include "recorder.h"
#include "unwind/unwind.h"

namespace granary::record {

constinit Stacks stacks{};

namespace {

uint64_t Hash(const uintptr_t* frames, size_t count) {
  uint64_t hash = count;
  for (size_t i = 0; i < count; ++i) hash = (hash ^ frames[i]) * 0x9E3779B97F4A7C15u ^ hash >> 29;
  return hash == 0 ? 1 : hash;
}

// The chunk of the definitions, which is never given again.
int lock;
Encoder definitions;

void Define(uint32_t number, const uintptr_t* frames, size_t count) {
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE) != 0) sched_yield();
  if (!definitions.HasRoom()) {
    uint8_t* const chunk = ChunkOf(kDefinitionsThread);
    if (chunk != nullptr) definitions.Begin(chunk + sizeof(ChunkHeader), chunk + kChunkBytes, 0);
  }
  if (definitions.HasRoom()) definitions.DefineStack(number, frames, count);
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

}  // namespace

bool Stacks::Start() {
  constexpr size_t kBytes = kSlots * sizeof(uint64_t);
  if (memory_ != nullptr) {
    madvise(memory_, kBytes, MADV_DONTNEED);
  } else {
    void* const p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return false;
    memory_ = static_cast<uint64_t*>(p);
  }
  used_ = 0;
  lock = 0;  // in a child of fork, a thread of the parent may have held it
  definitions.Leave();
  numbers_ = memory_;
  unwind::Refresh();
  return true;
}

uint32_t Stacks::NumberOf(uint64_t hash, bool* isNew) {
  for (uint64_t slot = hash >> 48;; ++slot) {
    slot = slot % kSlots == 0 ? 1 : slot % kSlots;
    uint64_t there = __atomic_load_n(&numbers_[slot], __ATOMIC_RELAXED);
    if (there == 0) {
      if (__atomic_add_fetch(&used_, 1, __ATOMIC_RELAXED) > kMost) {
        __atomic_sub_fetch(&used_, 1, __ATOMIC_RELAXED);
        return 0;
      }
      *isNew = __atomic_compare_exchange_n(&numbers_[slot], &there, hash, false, __ATOMIC_RELAXED,
                                           __ATOMIC_RELAXED);
      if (*isNew) return static_cast<uint32_t>(slot);
      __atomic_sub_fetch(&used_, 1, __ATOMIC_RELAXED);
    }
    if (there == hash) return static_cast<uint32_t>(slot);
  }
}

void Stacks::Write(Words& words) {
  constexpr size_t kOwn = 8;
  uintptr_t walked[kMaxFrames + kOwn];
  unwind::Result how;
  size_t count = unwind::Walk(unwind::Here(), walked, kMaxFrames + kOwn, &how);
  const uintptr_t* frames = walked;
  for (; count > 0 && IsOwn(reinterpret_cast<const void*>(*frames)); --count) ++frames;
  if (count > kMaxFrames) count = kMaxFrames;
  if (count == 0) return;
  bool is_new = false;
  const uint32_t number = NumberOf(Hash(frames, count), &is_new);
  if (number == 0) return;
  if (is_new) {
    const int error = errno;
    Define(number, frames, count);
    NoteModules(frames, count);
    errno = error;
  }
  words.Stack(number);
}

}  // namespace granary::record
