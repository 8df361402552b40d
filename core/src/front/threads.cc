#include "front/threads.h"

#include <pthread.h>
#include <sys/auxv.h>

#include "os/linux.h"

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

// glibc's registration; musl and glibc before 2.35 lack it.
extern "C" {
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace granary {
namespace {

RestartArea* KernelArea() {
  return reinterpret_cast<RestartArea*>(static_cast<char*>(__builtin_thread_pointer()) +
                                        __rseq_offset);
}

uintptr_t RelativeToAnchor(RestartArea* area) {
  return reinterpret_cast<uintptr_t>(area) - reinterpret_cast<uintptr_t>(&anchor.unregistered);
}

// The area of a thread that uses a shared cache: it has no index. thread_area is 0 only before
// registration, so anchor.unregistered cannot serve.
RestartArea shared_area{.cpu_id = -1, .concurrency_id = -1};

}  // namespace

constinit Threads threads;

void Threads::Init(unsigned cpus) noexcept {
  const bool kernel = &__rseq_offset != nullptr && &__rseq_size != nullptr && __rseq_size > 0;
  owner_ = kernel && cpus > 0 ? CacheOwner::kCpu : CacheOwner::kThread;
  const bool has_concurrency_id =
      getauxval(AT_RSEQ_FEATURE_SIZE) >=
      offsetof(RestartArea, concurrency_id) + sizeof(RestartArea::concurrency_id);
  if (owner_ == CacheOwner::kCpu && !has_concurrency_id)
    anchor.cache_index = &anchor.unregistered.cpu_id;
  const size_t wanted = 4 * static_cast<size_t>(cpus > 0 ? cpus : kMaxCpus);
  slots_ = wanted < kMaxThreadCaches ? wanted : kMaxThreadCaches;
}

uintptr_t Threads::SharingArea() noexcept { return RelativeToAnchor(&shared_area); }

bool Threads::Register() noexcept {
  if (thread_area != 0) return CurrentIndex() >= 0;
  registered_.fetch_add(1, std::memory_order_relaxed);
  return owner_ == CacheOwner::kCpu ? RegisterWithKernel() : TakeSlot();
}

// A thread made by a bare clone() is not registered with the kernel, whatever its area contains.
bool Threads::RegisterWithKernel() noexcept {
  RestartArea* const area = KernelArea();
  if (area->cpu_id < 0 || !Linux::RegisteredForRestart(area)) {
    thread_area = SharingArea();
    return false;
  }
  thread_area = RelativeToAnchor(area);
  return true;
}

bool Threads::TakeSlot() noexcept {
  if (!has_key_) {
    pthread_key_t key;
    if (pthread_key_create(&key, &Threads::ThreadExit) != 0) return false;
    key_ = key;
    has_key_ = true;
  }
  for (size_t i = 0; i < slots_; ++i) {
    Slot& slot = slot_[i];
    if (slot.taken.load(std::memory_order_relaxed) || slot.taken.exchange(true)) continue;
    slot.area.concurrency_id = static_cast<int32_t>(kMaxCpus + i);
    thread_area = RelativeToAnchor(&slot.area);
    pthread_setspecific(key_, &slot);
    return true;
  }
  thread_area = SharingArea();
  return false;
}

void Threads::ThreadExit(void* argument) noexcept {
  auto* const slot = static_cast<Slot*>(argument);
  thread_area = SharingArea();
  const auto index = static_cast<size_t>(slot->area.concurrency_id);
  if (threads.on_exit_ != nullptr) threads.on_exit_(index);
  slot->taken.store(false, std::memory_order_release);
}

void Threads::ForgetOthers(void (*callback)(size_t index)) noexcept {
  registered_.store(thread_area != 0 ? 1 : 0, std::memory_order_relaxed);
  for (size_t i = 0; i < slots_; ++i) {
    Slot& slot = slot_[i];
    if (!slot.taken.load(std::memory_order_relaxed) ||
        RelativeToAnchor(&slot.area) == thread_area) {
      continue;
    }
    callback(kMaxCpus + i);
    slot.taken.store(false, std::memory_order_relaxed);
  }
}

}  // namespace granary
