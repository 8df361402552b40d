// The registration of threads: all threads of the simulated program run on the one that simulates,
// and each has its cache by the CPU that it runs on.
#include "front/threads.h"

#include "simulate/running.h"

namespace granary {

constinit Threads threads;

namespace simulate {

namespace {

RestartArea area;

}  // namespace

void RunOn(unsigned cpu, bool registered) {
  area.cpu_id = area.concurrency_id = static_cast<int32_t>(cpu);
  thread_area = registered ? AddressOf(&area) - AddressOf(&anchor.unregistered) : 0;
}

}  // namespace simulate

void Threads::Init(unsigned) noexcept { owner_ = CacheOwner::kCpu; }

bool Threads::Register() noexcept {
  if (thread_area == 0) registered_.fetch_add(1, std::memory_order_relaxed);
  simulate::RunOn(static_cast<unsigned>(simulate::area.concurrency_id), true);
  return true;
}

uintptr_t Threads::SharingArea() noexcept { return 0; }
void Threads::ForgetOthers(void (*)(size_t index)) noexcept {}

}  // namespace granary
