// Any text as options, Granary's and jemalloc's. Parsing reads nothing outside the text,
// terminates, and leaves every option within its bounds.
#include <cstring>
#include <memory>

#include "base/fake_die.h"
#include "config/apply_text.h"
#include "config/jemalloc_options.h"

namespace {

void RequireBounds(const granary::Options& options) {
  for (size_t row = 0; row < granary::kOptionCount; ++row) {
    const granary::OptionInfo& info = granary::kOptions[row];
    const int64_t value = options.Get(row);
    if (value < info.lowest || value > info.highest) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // On the heap without a final zero, so that the address sanitizer detects reads beyond the end.
  const std::unique_ptr<char[]> text(new char[size]);
  if (size > 0) std::memcpy(text.get(), data, size);
  granary::Warnings().clear();
  granary::Options native;
  granary::ApplyText(native, {text.get(), size}, granary::Source::kGranaryVariable);
  RequireBounds(native);
  granary::Options jemalloc;
  granary::jemalloc::ApplyConf(jemalloc, {text.get(), size}, granary::Source::kMallocVariable);
  RequireBounds(jemalloc);
  return 0;
}
