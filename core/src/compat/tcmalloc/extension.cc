#include "compat/tcmalloc/extension.h"

#include "base/writer.h"
#include "compat/tcmalloc/properties.h"
#include "heap/heap.h"
#include "inspection/measure.h"
#include "layers/class_figures.h"
#include "upkeep/upkeep.h"

namespace granary::tcmalloc {

bool Verify(const void* p) noexcept { return heap::UsableSize(p, "MallocExtension") > 0; }

bool VerifyAll() noexcept {
  heap::EnsureInit();
  heap::Verify();  // aborts if the heap is damaged
  return true;
}

bool MemoryStats(int* blocks, size_t* total, int histogram[64]) noexcept {
  heap::EnsureInit();
  const Snapshot s = Measure();
  *blocks = static_cast<int>(s.live_objects);
  *total = s.live;
  for (int i = 0; i < 64; ++i) histogram[i] = 0;
  for (SizeClass c = 1; c < kNumClasses; ++c) {
    const unsigned row = static_cast<unsigned>(std::bit_width(kClassSize[c])) - 1;
    histogram[row] += static_cast<int>(MeasureClass(c).live);
  }
  for (size_t g = 0; g < kLargeGroups; ++g) {
    const LargeCounts counts = layers.pages().CountsOf(g);
    histogram[20 + g / 4] += static_cast<int>(counts.made - counts.gone);
  }
  return true;
}

namespace {

void Line(Writer& w, uint64_t bytes, const char* what) {
  w.Text("MALLOC: ").Number(bytes).Text(" (").Number(bytes / kMiB).Text(" MiB) ").Text(what);
  w.Text("\n");
}

}  // namespace

void GetStats(char* buffer, int length) noexcept {
  if (length <= 0) return;
  heap::EnsureInit();
  const Snapshot s = Measure();
  Writer w(buffer, static_cast<size_t>(length) - 1);
  w.Text("------------------------------------------------\n");
  Line(w, s.live, "Bytes in use by application");
  Line(w, s.dirty, "Bytes in page heap freelist");
  Line(w, s.slab_free, "Bytes in central cache freelist");
  Line(w, s.depot, "Bytes in transfer cache freelist");
  Line(w, s.cached, "Bytes in thread cache freelists");
  Line(w, s.metadata_used, "Bytes in malloc metadata");
  size_t physical = 0;
  GetProperty("generic.total_physical_bytes", &physical);
  Line(w, physical, "Actual memory used (physical + swap)");
  Line(w, s.mapped > physical ? s.mapped - physical : 0, "Bytes released to OS (aka unmapped)");
  Line(w, s.mapped, "Virtual address space used");
  w.Text("MALLOC: ").Number(s.slabs).Text(" Spans in use\n");
  w.Text("MALLOC: ").Number(s.caches).Text(" Thread heaps in use\n");
  w.Text("------------------------------------------------\n");
  buffer[w.size()] = 0;
}

void ReleaseToSystem(size_t bytes) noexcept {
  heap::EnsureInit();
  const Upkeep::Exclusive alone(upkeep);
  upkeep.PurgeSpans(bytes);
}

size_t ThreadCacheSize() noexcept {
  heap::EnsureInit();
  const Snapshot s = Measure();
  return s.caches == 0 ? 0 : s.cached / s.caches;
}

// malloc(0) gives an object of no bytes.
size_t Estimate(size_t size) noexcept { return size == 0 ? 0 : heap::GoodSize(size, 1); }

int Ownership(const void* p) noexcept {
  heap::EnsureInit();
  return page_map.ClassAt(p) != kNoClass || layers.pages().LargeSize(p) != 0 ? 1 : 2;
}

// ---- the class ----
// Methods with the compiler's calling convention: the object is the first argument. Methods that
// return or fill objects of the C++ library leave these unchanged, because the program's C++
// library defines their layout.

namespace {

void Nothing(Extension*) {}
bool VerifyAllOf(Extension*) { return VerifyAll(); }
bool VerifyOf(Extension*, const void* p) { return Verify(p); }
bool StatsOf(Extension*, int* blocks, size_t* total, int* histogram) {
  return MemoryStats(blocks, total, histogram);
}
void GetStatsOf(Extension*, char* buffer, int length) { GetStats(buffer, length); }
void LeaveText(Extension*, void*) {}
void Ranges(Extension*, void*, void*) {}
bool GetOf(Extension*, const char* name, size_t* value) { return GetProperty(name, value); }
bool SetOf(Extension*, const char* name, size_t value) { return SetProperty(name, value); }
void* NoAllocator(Extension*) { return nullptr; }
void SetAllocator(Extension*, void*) {}
void ReleaseOf(Extension*, size_t bytes) { ReleaseToSystem(bytes); }
void ReleaseAll(Extension*) { heap::Trim(); }
void SetRateOf(Extension*, double rate) { SetReleaseRate(rate); }
double RateOf(Extension*) { return ReleaseRate(); }
size_t EstimateOf(Extension*, size_t size) { return Estimate(size); }
size_t SizeOf(Extension*, const void* p) { return heap::UsableSize(p, "GetAllocatedSize"); }
int OwnershipOf(Extension*, const void* p) { return Ownership(p); }
void* NoTraces(Extension*, int* period) {
  if (period != nullptr) *period = 0;
  return nullptr;
}
void* NoGrowth(Extension*) { return nullptr; }
size_t CacheSizeOf(Extension*) { return ThreadCacheSize(); }

void* methods[2 + 29];  // two words before the first method: offset to top, type
Extension extension;

template <class Method>
void* Address(Method* method) {
  return reinterpret_cast<void*>(method);
}

}  // namespace

// The code fills this table, not the loader, which would have to write to the page in every
// process.
Extension* Instance() noexcept {
  void* const table[29] = {
      Address(Nothing),      Address(Nothing),    Address(VerifyAllOf), Address(VerifyOf),
      Address(VerifyOf),     Address(VerifyOf),   Address(StatsOf),     Address(GetStatsOf),
      Address(LeaveText),    Address(LeaveText),  Address(Ranges),      Address(GetOf),
      Address(SetOf),        Address(Nothing),    Address(Nothing),     Address(NoAllocator),
      Address(SetAllocator), Address(ReleaseOf),  Address(ReleaseAll),  Address(SetRateOf),
      Address(RateOf),       Address(EstimateOf), Address(SizeOf),      Address(OwnershipOf),
      Address(LeaveText),    Address(NoTraces),   Address(NoGrowth),    Address(CacheSizeOf),
      Address(Nothing)};
  for (size_t i = 0; i < 29; ++i) methods[2 + i] = table[i];
  extension.methods = methods + 2;
  return &extension;
}

}  // namespace granary::tcmalloc
