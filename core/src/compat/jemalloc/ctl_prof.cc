#include "compat/jemalloc/ctl_prof.h"

#include <errno.h>

#include <bit>

#include "front/thread_settings.h"
#include "layers/layers.h"
#include "profiler/profile_files.h"
#include "profiler/profile_hooks.h"
#include "profiler/profiler.h"
#include "profiler/sampled_threads.h"
#include "unwind/unwind.h"

namespace granary::jemalloc {
namespace {

uint64_t RateInForce() {
  const uint64_t rate = layers.front().sampling().rate();
  return rate != 0 ? rate : static_cast<uint64_t>(options.prof_sample);
}

int SetActive(bool active) {
  if (!active) return profiler::Pause(), 0;
  unwind::Refresh();
  return profiler::Start(RateInForce(), 0) == profiler::Started::kRefused ? ENOMEM : 0;
}

// `logarithm` is the logarithm of the new rate.
int ResetTo(uint64_t logarithm) {
  if (logarithm > 40) return EINVAL;
  options.Set(static_cast<size_t>(OptionId::prof_sample), int64_t{1} << logarithm,
              Source::kRunning);
  const bool active = layers.front().sampling().on();
  if (active) profiler::Pause();
  if (!profiler::Reset()) return ENOMEM;
  return active ? SetActive(true) : 0;
}

// Keeps only printable characters, and as many as fit.
int NameThread(const char* name) {
  if (name == nullptr) return EINVAL;
  const size_t length = __builtin_strlen(name);
  for (size_t i = 0; i < length; ++i) {
    if (name[i] != '\t' && (name[i] < ' ' || name[i] > '~')) return EINVAL;
  }
  const size_t kept = length < ThreadSettings::kMaxName ? length : ThreadSettings::kMaxName - 1;
  __builtin_memmove(thread_settings.name, name, kept);
  thread_settings.name[kept] = 0;
  return 0;
}

}  // namespace

int ReadProf(Handler handler, uint32_t argument, uint64_t* out) noexcept {
  switch (handler) {
    case Handler::kThreadProf:
      return *out = sampled_threads::ThreadIsSampled(), 0;
    case Handler::kThreadProfName:
      return *out = AddressOf(thread_settings.name), 0;
    case Handler::kProfHook:
      return *out = profile_hooks::Get(argument), 0;
    case Handler::kProfThreadInit:
      return *out = sampled_threads::NewThreadsAreSampled(), 0;
    case Handler::kProfActive:
      return *out = layers.front().sampling().on(), 0;
    case Handler::kProfDump:
      return profile_files::Write('m') ? 0 : EFAULT;
    case Handler::kProfGdump:
      return *out = profile_files::AtPeaks(), 0;
    case Handler::kProfReset:
      return profiler::Reset() ? 0 : ENOMEM;
    case Handler::kProfInterval:
      return *out = profile_files::Interval(), 0;
    case Handler::kProfLgSample:
      return *out = static_cast<uint64_t>(std::bit_width(RateInForce())) - 1, 0;
    default:
      return ENOENT;
  }
}

int WriteProf(Handler handler, uint32_t argument, uint64_t value) noexcept {
  switch (handler) {
    case Handler::kThreadProf:
      return thread_settings.sampled = value != 0 ? Sampled::kYes : Sampled::kNo, 0;
    case Handler::kThreadProfName:
      return NameThread(reinterpret_cast<const char*>(value));
    case Handler::kProfHook:
      return profile_hooks::Set(argument, value), 0;
    case Handler::kProfThreadInit:
      return sampled_threads::SetNewThreadsAreSampled(value != 0), 0;
    case Handler::kProfActive:
      return SetActive(value != 0);
    case Handler::kProfDump:
      if (value == 0) return profile_files::Write('m') ? 0 : EFAULT;
      return profile_files::WriteTo(reinterpret_cast<const char*>(value)) ? 0 : EFAULT;
    case Handler::kProfPrefix:
      if (value == 0) return EINVAL;
      return profile_files::SetPrefix(reinterpret_cast<const char*>(value)), 0;
    case Handler::kProfGdump:
      return profile_files::SetAtPeaks(value != 0), 0;
    case Handler::kProfReset:
      return ResetTo(value);
    default:
      return EPERM;
  }
}

}  // namespace granary::jemalloc
