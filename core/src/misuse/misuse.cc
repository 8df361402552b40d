#include "base/misuse.h"

#include <atomic>

#include "base/check.h"
#include "base/units.h"
#include "base/writer.h"
#include "os/linux.h"

namespace granary {
namespace {

void Describe(Writer& w, const MisuseReport& r) {
  switch (r.what) {
    case Misuse::kUnknownAddress:
      w.Text(r.verb).Text(" of an address that Granary did not allocate: ").Hex(AddressOf(r.p));
      w.Text("; pass only what malloc or a related function returned");
      return;
    case Misuse::kOtherHeap:
      w.Text(r.verb).Text(" of an address that is not of this heap: ").Hex(AddressOf(r.p));
      w.Text("; pass only what a call on the same heap returned");
      return;
    case Misuse::kUnaligned:
      w.Text(r.verb).Text(" of an unaligned address: ").Hex(AddressOf(r.p)).Text(" is inside a");
      if (r.size > 0)
        w.Text("n object of ").Number(r.size).Text(" bytes");
      else
        w.Text(" larger block");
      w.Text("; pass the address where it begins");
      return;
    case Misuse::kDoubleFree:
      w.Text("double free of ");
      if (r.size > 0)
        w.Text("an object of ").Number(r.size).Text(" bytes at ").Hex(AddressOf(r.p));
      else
        w.Text("the block at ").Hex(AddressOf(r.p));
      w.Text(" (detected by ").Text(r.verb).Text("); it had been freed before");
      return;
    case Misuse::kWrongSize:
      w.Text("sized free of ").Number(r.given).Text(" bytes at ").Hex(AddressOf(r.p));
      w.Text(", the wrong size: an object of ").Number(r.size).Text(" bytes is there");
      return;
    case Misuse::kWrittenBeyond:
      w.Text("write beyond an object of ").Number(r.size).Text(" bytes at ").Hex(AddressOf(r.p));
      w.Text(" (detected by ").Text(r.verb).Text("); the bytes after its end were changed");
      return;
    case Misuse::kWrittenBefore:
      w.Text("write before an object of ").Number(r.size).Text(" bytes at ").Hex(AddressOf(r.p));
      w.Text(" (detected by ").Text(r.verb).Text("), or beyond the object before it");
      return;
    case Misuse::kWrittenFree:
      w.Text("write after free: the free object of ").Number(r.size).Text(" bytes at ");
      w.Hex(AddressOf(r.p)).Text(" was changed (detected by ").Text(r.verb).Text(")");
      return;
  }
}

std::atomic<MisuseHook> misuse_hook{nullptr};

// Two threads that report at once take places one after the other.
void Keep(const char* text, size_t bytes) {
  const uint64_t at = __atomic_fetch_add(&kept_reports.bytes, bytes, __ATOMIC_RELAXED);
  if (at >= sizeof kept_reports.text) return;
  const size_t room = sizeof kept_reports.text - at;
  __builtin_memcpy(kept_reports.text + at, text, bytes < room ? bytes : room);
}

[[noreturn]] void Finish(Writer& w) {
  w.Text("\n");
  Warn(w.data(), w.size());
  Linux::Abort();
}

}  // namespace

__attribute__((section(".bss.kept_reports"))) constinit KeptReports kept_reports{};

void Warn(const char* text, size_t bytes) noexcept {
  Keep(text, bytes);
  Linux::WriteError(text, bytes);
}

void Die(const char* message) noexcept {
  char buffer[512];
  Writer w(buffer, sizeof buffer);
  Finish(w.Text("granary: ").Text(message));
}

void Die(const MisuseReport& report) noexcept {
  char buffer[512];
  Writer w(buffer, sizeof buffer);
  w.Text("granary: ");
  Describe(w, report);
  const MisuseHook hook = misuse_hook.load(std::memory_order_relaxed);
  if (hook == nullptr) Finish(w);
  Keep(w.data(), w.size());
  buffer[w.size() < sizeof buffer ? w.size() : sizeof buffer - 1] = 0;
  hook(buffer);
  Linux::Abort();
}

void Report(const MisuseReport& report) noexcept {
  char buffer[512];
  Writer w(buffer, sizeof buffer);
  w.Text("granary: ");
  Describe(w, report);
  w.Text("\n");
  Warn(w.data(), w.size());
}

void SetMisuseHook(MisuseHook hook) noexcept { misuse_hook.store(hook, std::memory_order_relaxed); }

}  // namespace granary
