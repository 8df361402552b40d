#include "profiler/guard_report.h"

#include <dlfcn.h>

#include "base/check.h"
#include "base/writer.h"

// Absent from a static program.
#pragma weak dladdr

namespace granary::profiler {
namespace {

class Line {
 public:
  Line() : writer_(text_, sizeof text_) {}
  ~Line() {
    writer_.Text("\n");
    Warn(writer_.data(), writer_.size());
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  Writer* operator->() { return &writer_; }

 private:
  char text_[512];
  Writer writer_;
};

void PrintFrame(size_t index, uintptr_t frame) {
  Line line;
  line->Text("    #").Number(index).Text(" ").Hex(frame);
  Dl_info info{};
  if (&dladdr == nullptr || dladdr(reinterpret_cast<void*>(frame), &info) == 0) return;
  if (info.dli_sname != nullptr) {
    line->Text(" in ").Text(info.dli_sname).Text("+");
    line->Hex(frame - AddressOf(info.dli_saddr));
  }
  if (info.dli_fname == nullptr) return;
  line->Text(" (").Text(info.dli_fname).Text("+").Hex(frame - AddressOf(info.dli_fbase)).Text(")");
}

void PrintStack(const char* what, const GuardStack& stack) {
  if (stack.depth == 0) return;
  Line()->Text("  ").Text(what).Text(" by thread ").Number(stack.thread).Text(":");
  for (size_t i = 0; i < stack.depth; ++i) PrintFrame(i, stack.frames[i]);
}

Writer& PrintBytes(Writer& w, uintptr_t n) {
  return w.Number(n).Text(n == 1 ? " byte " : " bytes ");
}

// Where p is, relative to the object.
void PrintPlace(Writer& w, const void* p, const GuardedObject& o) {
  const uintptr_t at = AddressOf(p), begin = AddressOf(o.p), end = begin + o.size;
  if (at == begin)
    w.Text("the start");
  else if (at < begin)
    PrintBytes(w, begin - at).Text("before the start");
  else if (at < end)
    PrintBytes(w, at - begin).Text("after the start");
  else
    PrintBytes(w, at - end).Text("after the end");
  w.Text(" of an object of ").Number(o.size).Text(" bytes at ").Hex(begin);
}

}  // namespace

void ReportGuard(const char* what, const void* p, const GuardedObject* o,
                 const GuardStack& access) noexcept {
  {
    Line line;
    line->Text("granary: ").Text(what).Text(" at ").Hex(AddressOf(p)).Text(": ");
    if (o == nullptr)
      line->Text("in the pool of sampled guards, where no object was");
    else
      PrintPlace(*line.operator->(), p, *o);
  }
  PrintStack("this call", access);
  if (o == nullptr) return;
  PrintStack("freed", o->freed);
  PrintStack("allocated", o->allocated);
}

}  // namespace granary::profiler
