#include "profiler/profile_files.h"

#include "base/writer.h"
#include "config/jemalloc_options.h"
#include "layers/layers.h"
#include "profiler/jeprof_writer.h"
#include "profiler/profile_hooks.h"

namespace granary::profile_files {
namespace {

using jemalloc::JemallocId;

constexpr size_t kMostPrefix = 256;
char prefix[kMostPrefix];
std::atomic<bool> prefix_is_set{false};
std::atomic<uint64_t> written{0};        // files written for any reason
std::atomic<uint64_t> next_interval{0};  // estimated bytes allocated at which the next file is due
std::atomic<size_t> peak{0};             // bytes mapped at the last peak
// -1: the value of the option
std::atomic<int> at_peaks{-1};

// The reasons whose files have a number, in order of the numbers' array.
constexpr char kCounted[] = "imu";
std::atomic<uint64_t> of_reason[sizeof kCounted - 1];

int64_t OptionOf(JemallocId id) { return jemalloc::ValueOf(options, static_cast<size_t>(id)); }

uint64_t AllocatedBytes() {
  const Locked hold(layers.profile().mutex());
  const samples::Head* const head = layers.profile().head();
  return head == nullptr ? 0 : head->allocated.bytes;
}

void WriteAtInterval() {
  const uint64_t interval = Interval();
  if (interval == 0) return;
  const uint64_t now = AllocatedBytes();
  uint64_t due = next_interval.load(std::memory_order_relaxed);
  if (due == 0) due = interval;
  if (now < due || !next_interval.compare_exchange_strong(due, now - now % interval + interval)) {
    uint64_t none = 0;
    next_interval.compare_exchange_strong(none, interval);
    return;
  }
  Write('i');
}

void WriteAtPeak() {
  if (!AtPeaks()) return;
  const size_t mapped = layers.pages().Stats().used;
  size_t before = peak.load(std::memory_order_relaxed);
  // Every new page would be a new peak and write a file. Only a peak that is a sixteenth higher
  // writes one.
  if (mapped <= before + before / 16) return;
  if (peak.compare_exchange_strong(before, mapped)) Write('u');
}

// Returns false if no sampled object is still allocated.
bool ReportLeaks() {
  samples::Amount left{};
  uint64_t stacks = 0;
  {
    const Locked hold(layers.profile().mutex());
    const samples::Head* const head = layers.profile().head();
    if (head == nullptr) return false;
    left.objects = head->allocated.objects - head->freed.objects;
    left.bytes = head->allocated.bytes - head->freed.bytes;
    for (size_t i = 0; i < head->stacks; ++i) {
      const samples::Stack& s = layers.profile().stacks()[i];
      if (s.allocated.samples > s.freed.samples) ++stacks;
    }
  }
  if (left.bytes == 0) return false;
  char text[256];
  Writer w(text, sizeof text);
  w.Text("granary: about ").Number(left.bytes).Text(" bytes in ");
  w.Number(left.objects / samples::kObjectScale).Text(" objects of ").Number(stacks);
  w.Text(" stacks were still allocated at exit, by samples; the profile says where\n");
  Linux::WriteError(w.data(), w.size());
  return true;
}

}  // namespace

const char* Prefix() noexcept {
  return prefix_is_set.load(std::memory_order_acquire)
             ? prefix
             : jemalloc::TextOf(options, static_cast<size_t>(JemallocId::prof_prefix));
}

void SetPrefix(const char* to) noexcept {
  const size_t n = __builtin_strlen(to);
  const size_t kept = n < kMostPrefix ? n : kMostPrefix - 1;
  __builtin_memcpy(prefix, to, kept);
  prefix[kept] = 0;
  prefix_is_set.store(true, std::memory_order_release);
}

uint64_t Interval() noexcept {
  const int64_t logarithm = OptionOf(JemallocId::lg_prof_interval);
  return logarithm < 0 || logarithm > 62 ? 0 : uint64_t{1} << logarithm;
}

bool AtPeaks() noexcept {
  const int set = at_peaks.load(std::memory_order_relaxed);
  return set >= 0 ? set != 0 : OptionOf(JemallocId::prof_gdump) != 0;
}
void SetAtPeaks(bool on) noexcept { at_peaks.store(on ? 1 : 0, std::memory_order_relaxed); }

bool WriteTo(const char* path) noexcept {
  if (!WriteJeprof(path, JeprofForm::kJemalloc)) return false;
  profile_hooks::Dumped(path);
  return true;
}

bool Write(char reason) noexcept {
  const char* const prefix = Prefix();
  if (prefix[0] == 0) return false;
  char path[kMostPrefix + 64];
  Writer w(path, sizeof path - 1);
  const char letter[2] = {reason, 0};
  const uint64_t number = written.fetch_add(1, std::memory_order_relaxed);
  w.Text(prefix).Text(".").Number(Linux::ProcessId()).Text(".").Number(number);
  w.Text(".").Text(letter);
  for (size_t i = 0; i < sizeof kCounted - 1; ++i) {
    if (kCounted[i] == reason) w.Number(of_reason[i].fetch_add(1, std::memory_order_relaxed));
  }
  w.Text(".heap");
  path[w.size()] = 0;
  return WriteTo(path);
}

void AfterSample() noexcept {
  WriteAtInterval();
  WriteAtPeak();
}

bool AtExit() noexcept {
  if (!options.prof || !layers.profile().Collects()) return false;
  const bool error = OptionOf(JemallocId::prof_leak_error) != 0;
  const bool leak = error || OptionOf(JemallocId::prof_leak) != 0;
  const bool left = leak && ReportLeaks();
  if (leak || OptionOf(JemallocId::prof_final) != 0) Write('f');
  return error && left;
}

}  // namespace granary::profile_files
