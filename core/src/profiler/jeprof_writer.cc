#include "profiler/jeprof_writer.h"

#include "base/writer.h"
#include "layers/layers.h"

namespace granary {
namespace {

// A file that is written in pieces.
class Output {
 public:
  explicit Output(const char* path) : file_(Linux::CreateFile(path)) {}
  ~Output() { Linux::CloseFile(file_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  Output& Text(const char* text) { return Put(text, __builtin_strlen(text)); }
  Output& Number(uint64_t n) {
    char digits[24];
    Writer w(digits, sizeof digits);
    w.Number(n);
    return Put(w.data(), w.size());
  }
  Output& Hex(uintptr_t n) {
    char digits[24];
    Writer w(digits, sizeof digits);
    w.Hex(n);
    return Put(w.data(), w.size());
  }
  Output& Put(const char* text, size_t n) {
    if (n > sizeof buffer_ - used_) Flush();
    if (n > sizeof buffer_) return Write(text, n);
    __builtin_memcpy(buffer_ + used_, text, n);
    used_ += n;
    return *this;
  }
  // Writes the content of /proc/self/maps.
  Output& Maps() {
    const int maps = Linux::OpenFile("/proc/self/maps");
    if (maps < 0) return *this;
    for (;;) {
      Flush();
      const long n = Linux::ReadFile(maps, buffer_, sizeof buffer_);
      if (n <= 0) break;
      used_ = static_cast<size_t>(n);
    }
    Linux::CloseFile(maps);
    return *this;
  }

  bool Done() {
    Flush();
    return fine_ && file_ >= 0;
  }

 private:
  void Flush() {
    Write(buffer_, used_);
    used_ = 0;
  }
  Output& Write(const char* text, size_t n) {
    if (n > 0 && (file_ < 0 || !Linux::WriteFile(file_, text, n))) fine_ = false;
    return *this;
  }

  int file_;
  bool fine_ = true;
  size_t used_ = 0;
  char buffer_[1024];
};

// A row of the file. Readers of this format multiply each stack's samples by a correction that they
// compute from the mean size of its objects. This row therefore holds the estimate divided by that
// correction.
struct Row {
  uint64_t objects = 0, bytes = 0;
};

Row Unscaled(const samples::Amount& a, uint64_t rate) {
  if (a.objects == 0) return {};
  const double objects = static_cast<double>(a.objects) / samples::kObjectScale;
  const auto bytes = static_cast<double>(a.bytes);
  const double samples = objects * samples::ChanceOf(bytes / objects, rate);
  // Rounds to whole samples. The bytes keep their ratio to the samples, from which readers compute
  // the correction.
  const auto whole = samples < 1 ? 1.0 : static_cast<double>(static_cast<uint64_t>(samples + 0.5));
  return {static_cast<uint64_t>(whole), static_cast<uint64_t>(whole * bytes / objects + 0.5)};
}

samples::Amount Less(const samples::Amount& a, const samples::Amount& b) {
  return {a.samples - b.samples, a.objects - b.objects, a.bytes - b.bytes,
          a.requested - b.requested};
}

// A copy of the samples, so that the file is written without the lock.
struct Copy {
  samples::Stack stack;
  uintptr_t frames[samples::kMostDepth];

  bool Take(size_t index) {
    const Locked hold(layers.profile().mutex());
    const samples::Head* const head = layers.profile().head();
    if (head == nullptr || index >= head->stacks) return false;
    stack = layers.profile().stacks()[index];
    __builtin_memcpy(frames, layers.profile().frames() + stack.first_frame,
                     stack.depth * sizeof *frames);
    return true;
  }
};

void WriteRow(Output& out, const Row& live, const Row& all) {
  out.Number(live.objects).Text(": ").Number(live.bytes);
  out.Text(" [").Number(all.objects).Text(": ").Number(all.bytes).Text("]");
}

void WriteFrames(Output& out, const Copy& copy) {
  out.Text("@");
  for (size_t k = 0; k < copy.stack.depth; ++k) out.Text(" ").Hex(copy.frames[k]);
}

uint64_t RateOf() {
  const Locked hold(layers.profile().mutex());
  const samples::Head* const head = layers.profile().head();
  return head == nullptr ? 0 : head->rate;
}

void WriteTotals(Output& out, JeprofForm form, uint64_t rate, Copy& copy) {
  Row live, all;
  for (size_t i = 0; copy.Take(i); ++i) {
    const Row l = Unscaled(Less(copy.stack.allocated, copy.stack.freed), rate);
    const Row a = Unscaled(copy.stack.allocated, rate);
    live = {live.objects + l.objects, live.bytes + l.bytes};
    all = {all.objects + a.objects, all.bytes + a.bytes};
  }
  if (form == JeprofForm::kJemalloc) {
    out.Text("heap_v2/").Number(rate).Text("\n  t*: ");
    WriteRow(out, live, all);
  } else {
    out.Text("heap profile: ");
    WriteRow(out, live, all);
    out.Text(" @ heap_v2/").Number(rate);
  }
  out.Text("\n");
}

void WriteStack(Output& out, JeprofForm form, uint64_t rate, const Copy& copy) {
  if (form == JeprofForm::kJemalloc) {
    WriteFrames(out, copy);
    out.Text("\n  t*: ");
  }
  WriteRow(out, Unscaled(Less(copy.stack.allocated, copy.stack.freed), rate),
           Unscaled(copy.stack.allocated, rate));
  if (form == JeprofForm::kGperftools) {
    out.Text(" ");
    WriteFrames(out, copy);
  }
  out.Text("\n");
}

}  // namespace

bool WriteJeprof(const char* path, JeprofForm form) noexcept {
  const uint64_t rate = RateOf();
  if (rate == 0) return false;
  Output out(path);
  Copy copy;
  WriteTotals(out, form, rate, copy);
  for (size_t i = 0; copy.Take(i); ++i) WriteStack(out, form, rate, copy);
  out.Text("\nMAPPED_LIBRARIES:\n").Maps();
  return out.Done();
}

}  // namespace granary
