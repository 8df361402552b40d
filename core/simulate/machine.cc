#include "simulate/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/bits.h"
#include "os/keep_aligned.h"

namespace granary::simulate {
namespace {

uint64_t Variable(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Before the library's own constructors.
__attribute__((constructor(101))) void StartMachine() { machine.Start(); }

}  // namespace

constinit Machine machine;

void Fail(const char* message) {
  std::fprintf(stderr, "simulate: %s\n", message);
  std::_Exit(1);
}

void Machine::Start() {
  hardware.cpus =
      static_cast<unsigned>(std::clamp<uint64_t>(Variable("SIMULATE_CPUS", 1), 1, kMaxCpus));
  hardware.nodes =
      static_cast<unsigned>(std::clamp<uint64_t>(Variable("SIMULATE_NODES", 1), 1, 64));
  hardware.memory = Variable("SIMULATE_MEMORY", 0);
  hardware.huge_pages = Variable("SIMULATE_HUGE_PAGES", 1) != 0;
  if (!pages.Start(hardware.huge_pages, hardware.nodes))
    Fail("the address space of the simulated heap was refused; raise the limit (ulimit -v)");
}

void* Machine::Map(size_t bytes, size_t alignment) noexcept {
  void* const whole = mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) return nullptr;
  char* const p = KeepAligned(whole, bytes, alignment, munmap);
  madvise(p, bytes, MADV_NOHUGEPAGE);
  mapped_.push_back({p, bytes});
  return p;
}

void Machine::Unmap(void* p, size_t bytes) noexcept {
  munmap(p, bytes);
  std::erase_if(mapped_, [p](const Mapping& m) { return m.p == p; });
}

uint64_t Machine::MappedResident() const {
  const size_t page = Pages::kPage;
  std::vector<unsigned char> resident;
  uint64_t bytes = 0;
  for (const Mapping& m : mapped_) {
    resident.resize(DivideUp(m.bytes, page));
    if (mincore(m.p, m.bytes, resident.data()) != 0) continue;
    for (const unsigned char state : resident) bytes += (state & 1) * page;
  }
  return bytes;
}

void Machine::SetClock(uint64_t nanos) {
  resident_time_ +=
      static_cast<double>(pages.resident_bytes()) * static_cast<double>(nanos - nanos_);
  nanos_ = nanos;
  reads_ = 0;
}

void Machine::AdvanceTo(uint64_t nanos) {
  while (background.started() && (background.IsWoken() || background.wakes_at() <= nanos)) {
    if (!background.IsWoken() && background.wakes_at() > nanos_) SetClock(background.wakes_at());
    reads_ = 0;
    background.Run();
  }
  SetClock(nanos);
}

}  // namespace granary::simulate
