#include "heap/settings.h"

#include "base/check.h"
#include "base/compiler.h"
#include "config/apply_text.h"
#include "config/environment.h"
#include "config/jemalloc_options.h"
#include "config/report.h"
#include "config/tcmalloc_variables.h"
#include "os/linux.h"

// Symbols that a program may define to set options: in Granary's form, and in jemalloc's under the
// names of its builds.
extern "C" {
__attribute__((weak)) GRANARY_EXPORT const char* granary_conf = nullptr;
__attribute__((weak)) GRANARY_EXPORT const char* malloc_conf = nullptr;
__attribute__((weak)) GRANARY_EXPORT const char* je_malloc_conf = nullptr;
__attribute__((weak)) GRANARY_EXPORT const char* _rjem_malloc_conf = nullptr;
__attribute__((weak)) GRANARY_EXPORT const char* malloc_conf_2_conf_harder = nullptr;
}

namespace granary {
namespace {

constexpr const char* kFile = "/etc/granary.conf";

class Loader {
 public:
  void Granary(const char* text, Source from) {
    if (text != nullptr) fine_ &= ApplyText(options, text, from);
  }
  void Jemalloc(const char* text, Source from) {
    if (text != nullptr)
      fine_ &= jemalloc::ApplyConf(options, {text, __builtin_strlen(text)}, from);
  }
  void Tcmalloc() { fine_ &= ApplyTcmallocVariables(options, &Linux::CpuCount); }
  void File() {
    const int file = Linux::OpenFile(kFile);
    if (file >= 0) Read(file);
  }
  bool fine() const { return fine_; }

 private:
  // A separate function: without the file, its buffer uses no page of the stack.
  GRANARY_NOINLINE void Read(int file) {
    char text[4096];
    const long bytes = Linux::ReadAndClose(file, text, sizeof text);
    if (bytes > 0) fine_ &= ApplyText(options, {text, static_cast<size_t>(bytes)}, Source::kFile);
  }

  bool fine_ = true;
};

}  // namespace

void LoadSettings() noexcept {
  Loader load;
  load.Granary(granary_conf, Source::kGranarySymbol);
  load.Jemalloc(malloc_conf, Source::kMallocSymbol);
  load.Jemalloc(je_malloc_conf, Source::kMallocSymbol);
  load.Jemalloc(_rjem_malloc_conf, Source::kMallocSymbol);
  load.File();
  load.Tcmalloc();
  load.Jemalloc(Environment("MALLOC_CONF"), Source::kMallocVariable);
  load.Jemalloc(malloc_conf_2_conf_harder, Source::kHarderSymbol);
  load.Granary(Environment("GRANARY_CONF"), Source::kGranaryVariable);
  if (options.confirm_conf) ReportAll(options);
  if (load.fine() || !options.abort_conf) return;
  Die("an option is wrong (see above) and abort_conf is set: correct the option or unset "
      "abort_conf");
}

}  // namespace granary
