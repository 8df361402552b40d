#include "profiler/profile_hooks.h"

#include <atomic>

#include "front/thread_settings.h"

namespace granary::profile_hooks {
namespace {

std::atomic<uint64_t> hooks[kCount];

// Calls `function`, unless this thread is already inside a hook.
template <class Function, class... Arguments>
void Call(Hook hook, Arguments... arguments) {
  const auto function = reinterpret_cast<Function*>(hooks[hook].load(std::memory_order_relaxed));
  if (function == nullptr || thread_settings.in_hook) return;
  thread_settings.in_hook = true;
  function(arguments...);
  thread_settings.in_hook = false;
}

}  // namespace

uint64_t Get(uint32_t hook) noexcept { return hooks[hook].load(std::memory_order_relaxed); }
void Set(uint32_t hook, uint64_t function) noexcept {
  hooks[hook].store(function, std::memory_order_relaxed);
}

void Dumped(const char* path) noexcept { Call<void(const char*)>(kDump, path); }

void Sampled(const void* p, size_t requested, uintptr_t* frames, size_t depth,
             size_t bytes) noexcept {
  Call<void(const void*, size_t, void**, unsigned, size_t)>(
      kSample, p, requested, reinterpret_cast<void**>(frames), static_cast<unsigned>(depth), bytes);
}

void Freed(const void* p, size_t bytes) noexcept {
  Call<void(const void*, size_t)>(kFree, p, bytes);
}

}  // namespace granary::profile_hooks
