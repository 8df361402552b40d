#include "front/threads.h"

#include <pthread.h>
#include <sys/auxv.h>

#include "config/options.h"
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

// Where glibc does not register threads, Granary registers this. The kernel writes to it until the
// thread has ended.
alignas(sizeof(RestartArea)) constinit __thread RestartArea own_area
    __attribute__((tls_model("initial-exec")));

// Whether the kernel has ended a thread before its thread-local storage is unmapped. musl unmaps
// that of a detached thread first.
#if defined(__GLIBC__)
constexpr bool kStorageOutlivesThread = true;
#else
constexpr bool kStorageOutlivesThread = false;
#endif

bool LibraryRegisters() {
  return &__rseq_offset != nullptr && &__rseq_size != nullptr && __rseq_size > 0;
}

RestartArea* LibraryArea() {
  return reinterpret_cast<RestartArea*>(static_cast<char*>(__builtin_thread_pointer()) +
                                        __rseq_offset);
}

uintptr_t RelativeToAnchor(RestartArea* area) {
  return reinterpret_cast<uintptr_t>(area) - reinterpret_cast<uintptr_t>(&anchor.unregistered);
}

// Whether somebody set rseq:true, who may know better than the kernel's release.
bool IsAskedForRseq() {
  return options.source[static_cast<size_t>(OptionId::rseq)] != Source::kDefault;
}

// The area of a thread that uses a shared cache: it has no index. thread_area is 0 only before
// registration, so anchor.unregistered cannot serve.
RestartArea shared_area{.cpu_id = -1, .concurrency_id = -1};

}  // namespace

constinit Threads threads;

void Threads::Init(unsigned cpus) noexcept {
  const bool wanted = cpus > 0 && options.rseq && (IsAskedForRseq() || Linux::RestartsPreempted());
  registers_ = wanted && !LibraryRegisters();
  owner_ = wanted && (!registers_ || RegisterOwnArea()) ? CacheOwner::kCpu : CacheOwner::kThread;
  const bool has_concurrency_id =
      getauxval(AT_RSEQ_FEATURE_SIZE) >=
      offsetof(RestartArea, concurrency_id) + sizeof(RestartArea::concurrency_id);
  if (owner_ == CacheOwner::kCpu && !has_concurrency_id)
    anchor.cache_index = &anchor.unregistered.cpu_id;
  fair_ = 4 * static_cast<size_t>(cpus > 0 ? cpus : kMaxCpus);
}

uintptr_t Threads::SharingArea() noexcept { return RelativeToAnchor(&shared_area); }

bool Threads::Register() noexcept {
  if (thread_area != 0) return CurrentIndex() >= 0;
  registered_.fetch_add(1, std::memory_order_relaxed);
  return owner_ == CacheOwner::kCpu ? RegisterWithKernel() : TakeSlot();
}

bool Threads::RegisterWithKernel() noexcept {
  RestartArea* const area = registers_ ? &own_area : LibraryArea();
  // A thread made by a bare clone() is not registered with the kernel, whatever the library's area
  // contains.
  const bool registered =
      registers_ ? RegisterOwnArea() : area->cpu_id >= 0 && Linux::RegisteredForRestart(area);
  thread_area = registered ? RelativeToAnchor(area) : SharingArea();
  return registered;
}

bool Threads::RegisterOwnArea() noexcept {
  if (kStorageOutlivesThread) return Linux::RegisterForRestart(&own_area);
  if (!MakeKey() || !Linux::RegisterForRestart(&own_area)) return false;
  pthread_setspecific(key_, &own_area);
  return true;
}

bool Threads::MakeKey() noexcept {
  if (has_key_) return true;
  pthread_key_t key;
  if (pthread_key_create(&key, &Threads::ThreadExit) != 0) return false;
  key_ = key;
  has_key_ = true;
  return true;
}

bool Threads::TakeSlot() noexcept {
  if (!MakeKey()) return false;
  for (size_t i = 0; i < kMaxThreadCaches; ++i) {
    Slot& slot = slot_[i];
    if (slot.taken.load(std::memory_order_relaxed) || slot.taken.exchange(true)) continue;
    taken_.fetch_add(1, std::memory_order_relaxed);
    slot.area.concurrency_id = static_cast<int32_t>(i);
    thread_area = RelativeToAnchor(&slot.area);
    pthread_setspecific(key_, &slot);
    return true;
  }
  thread_area = SharingArea();
  return false;
}

void Threads::ThreadExit(void* argument) noexcept {
  thread_area = SharingArea();
  if (argument == &own_area) return Linux::UnregisterForRestart(&own_area);
  auto* const slot = static_cast<Slot*>(argument);
  const auto index = static_cast<size_t>(slot->area.concurrency_id);
  if (threads.on_exit_ != nullptr) threads.on_exit_(index);
  threads.taken_.fetch_sub(1, std::memory_order_relaxed);
  slot->taken.store(false, std::memory_order_release);
}

void Threads::ForgetOthers(void (*callback)(size_t index)) noexcept {
  registered_.store(thread_area != 0 ? 1 : 0, std::memory_order_relaxed);
  for (size_t i = 0; i < kMaxThreadCaches; ++i) {
    Slot& slot = slot_[i];
    if (!slot.taken.load(std::memory_order_relaxed) ||
        RelativeToAnchor(&slot.area) == thread_area) {
      continue;
    }
    callback(i);
    taken_.fetch_sub(1, std::memory_order_relaxed);
    slot.taken.store(false, std::memory_order_relaxed);
  }
}

}  // namespace granary
