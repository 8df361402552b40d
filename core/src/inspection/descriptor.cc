#include "inspection/descriptor.h"

#include <type_traits>

#include "arena/arena.h"
#include "base/misuse.h"
#include "config/options.h"
#include "layers/layers.h"
#include "stats/snapshot.h"
#include "upkeep/upkeep.h"

// Each structure here has the layout of a C structure, apart from its access specifiers.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace granary {
namespace {

struct NamedConstant {
  const char* name;
  int64_t value;
  uint32_t width;
};

struct NamedCell {
  const char* name;
  Base base;
  uint64_t offset;
  uint32_t stride, count, width, scale;
};

// The size of a member, which may be a pointer.
template <class T>
constexpr uint32_t SizeOf() {
  return sizeof(T);  // NOLINT(bugprone-sizeof-expression)
}

// The width of a member, or of an element if the member is an array.
template <class T>
constexpr uint32_t ElementSize() {
  return SizeOf<std::remove_all_extents_t<T>>();
}

template <class T, size_t n>
constexpr size_t CountOf(const T (&)[n]) {
  return n;
}

}  // namespace

// Declared but not defined: a call at compile time is the compiler's error message.
uint32_t CountersNameACellThatIsNotInLayoutDef();
uint32_t TheTextsNeedMoreRoomInTheDescriptor();

// A friend of every structure whose members it names.
struct DescriptorRows {
  using Region = Arena::Region;
  using CacheOf = Cache<Linux>;
  using Chunk = PageHeap<Linux>::Chunk;
  using Magazine = Depot<Linux>::Magazine;
  using MetadataChunk = Metadata<Linux>::Chunk;
  using Word = Mutex<Linux>;

  static constexpr NamedConstant kConstants[] = {
#define CONSTANT(name, value) {name, static_cast<int64_t>(value), 0},
#define OFFSET(name, type, member)                     \
  {name, static_cast<int64_t>(offsetof(type, member)), \
   ElementSize<decltype(static_cast<type*>(nullptr)->member)>()},
#include "inspection/descriptor.def"
  };

  static constexpr NamedCell kCells[] = {
#define CELL(name, base, type, member, scale)                                 \
  {name, Base::base, offsetof(type, member),                                  \
   0,    1,          SizeOf<decltype(static_cast<type*>(nullptr)->member)>(), \
   scale},
#define CELLS(name, base, type, array, member, scale)                \
  {name,                                                             \
   Base::base,                                                       \
   offsetof(type, array[0] member),                                  \
   SizeOf<decltype(static_cast<type*>(nullptr)->array[0])>(),        \
   SizeOf<decltype(static_cast<type*>(nullptr)->array)>() /          \
       SizeOf<decltype(static_cast<type*>(nullptr)->array[0])>(),    \
   SizeOf<decltype(static_cast<type*>(nullptr)->array[0] member)>(), \
   scale},
#define LOCK(name, base, type, member)              \
  CELL(name ".held", base, type, member.word_, 0)   \
  CELL(name ".turns", base, type, member.turns_, 0) \
  CELL(name ".contentions", base, type, member.contentions_, 1)
#define LOCKS(name, base, type, array, member)              \
  CELLS(name ".held", base, type, array, member.word_, 0)   \
  CELLS(name ".turns", base, type, array, member.turns_, 0) \
  CELLS(name ".contentions", base, type, array, member.contentions_, 1)
#include "inspection/descriptor.def"
  };

  struct NamedOption {
    const char *name, *type, *meaning;
    bool at_run_time;
    size_t offset, width;
    int64_t default_value, lowest, highest;
  };
  static constexpr NamedOption kOptionRows[] = {
#define OPTION(name, type, default_value, lowest, highest, at_run_time, unit, meaning, when) \
  {#name,                                                                                    \
   #type,                                                                                    \
   meaning,                                                                                  \
   at_run_time,                                                                              \
   offsetof(Options, name),                                                                  \
   sizeof(Options::name),                                                                    \
   static_cast<int64_t>(default_value),                                                      \
   lowest,                                                                                   \
   highest},
#include "config/options.def"
#undef OPTION
  };

  template <size_t kText>
  using Descriptor = DescriptorOf<CountOf(kConstants), CountOf(kCells), CountOf(kCounters),
                                  CountOf(kOptionRows), kNumClasses, kText>;

  static consteval uint32_t CellNamed(const char* name) {
    if (name[0] == 0) return kNoCell;
    for (size_t i = 0; i < CountOf(kCells); ++i) {
      if (SameText(kCells[i].name, name)) return static_cast<uint32_t>(i);
    }
    return CountersNameACellThatIsNotInLayoutDef();
  }

  static consteval ClassRow RowOf(SizeClass c) {
    ClassRow row{};
    row.size = kClassSize[c];
    row.previous_size = c > 0 ? kClassSize[c - 1] : 0;
    row.short_floor = kCacheLayout.short_floor[c];
    row.long_floor = kCacheLayout.long_floor[c];
    if (HasReady(c)) {
      row.ready_list = static_cast<uint32_t>(ReadyList(c));
      row.ready_floor = kCacheLayout.ready_floor[c];
      row.ready_capacity = kReadySlots;
    }
    if (c == kNoClass) return row;
    row.short_capacity = ShortCapacity(c);
    row.long_capacity = LongCapacity(c);
    if (!IsSmall(c)) return row;
    row.slab_bytes = kSlabShape[c].bytes;
    row.slab_objects = kSlabShape[c].objects;
    return row;
  }

  template <class Rows>
  static consteval TableAt TableOf(size_t offset, const Rows& rows) {
    return {static_cast<uint32_t>(offset), static_cast<uint32_t>(rows.size()),
            static_cast<uint32_t>(sizeof(rows[0])), 0};
  }

  template <size_t kText>
  static consteval void FillRows(Descriptor<kText>& d, TextPool& pool) {
    for (size_t i = 0; i < d.constants.size(); ++i) {
      d.constants[i] = {pool.Put(kConstants[i].name), kConstants[i].width, kConstants[i].value};
    }
    for (size_t i = 0; i < d.cells.size(); ++i) {
      const NamedCell& c = kCells[i];
      d.cells[i] = {
          pool.Put(c.name), static_cast<uint32_t>(c.base), c.offset, c.stride, c.count, c.width,
          c.scale};
    }
    for (size_t i = 0; i < d.metrics.size(); ++i) {
      const CounterInfo& m = kCounters[i];
      d.metrics[i] = {pool.Put(m.name),  pool.Put(m.kind),    pool.Put(m.unit),
                      pool.Put(m.layer), pool.Put(m.meaning), CellNamed(m.cell)};
    }
    for (size_t i = 0; i < d.options.size(); ++i) {
      const NamedOption& o = kOptionRows[i];
      d.options[i] = {pool.Put(o.name),
                      pool.Put(o.type),
                      pool.Put(o.meaning),
                      o.at_run_time,
                      o.offset,
                      static_cast<uint32_t>(o.width),
                      0,
                      o.default_value,
                      o.lowest,
                      o.highest};
    }
    for (SizeClass c = 0; c < kNumClasses; ++c) d.classes[c] = RowOf(c);
  }

  // Returns the number of bytes that the texts need.
  template <size_t kText>
  static consteval size_t Fill(Descriptor<kText>& d) {
    using Self = Descriptor<kText>;
    TextPool pool(d.text, sizeof d.text, offsetof(Self, text));
    d.head = {{'g', 'r', 'a', 'n', 'a', 'r', 'y', 0},
              kDescriptorVersion,
              sizeof(Self),
              pool.Put(GRANARY_VERSION),
              5,
              TableOf(offsetof(Self, constants), d.constants),
              TableOf(offsetof(Self, cells), d.cells),
              TableOf(offsetof(Self, metrics), d.metrics),
              TableOf(offsetof(Self, options), d.options),
              TableOf(offsetof(Self, classes), d.classes)};
    FillRows(d, pool);
    if (pool.Full()) TheTextsNeedMoreRoomInTheDescriptor();
    return pool.used();
  }

  static consteval size_t TextBytes() {
    Descriptor<64 * kKiB> draft;
    return Fill(draft);
  }

  template <size_t kText>
  static consteval Descriptor<kText> Make() {
    Descriptor<kText> d;
    Fill(d);
    return d;
  }
};

constexpr size_t kTextBytes = DescriptorRows::TextBytes();

// Writable, so that core files contain it once it was written (RetainDescriptor). It has a section
// of its own, which the shared library puts at a separate address: the process reads it only to
// report figures, and next to other data its pages would be mapped together with that data.
extern "C" {
__attribute__((used, visibility("hidden"), section(".granary_descriptor"),
               aligned(64))) constinit DescriptorRows::Descriptor<kTextBytes>
    granary_descriptor = DescriptorRows::Make<kTextBytes>();
}

DescriptorPlace DescriptorBytes() noexcept {
  return {&granary_descriptor, sizeof granary_descriptor};
}

void RetainDescriptor() noexcept {
  // A core file does not contain pages that were never written. It contains the pages beside a
  // written page. Reading the descriptor first would map all of it.
  volatile char* const first = granary_descriptor.head.magic;
  *first = 'g';
}

const MetricRow& MetricAt(size_t index) noexcept { return granary_descriptor.metrics[index]; }
size_t MetricCount() noexcept { return granary_descriptor.metrics.size(); }
const char* TextOf(TextAt at) noexcept { return granary_descriptor.At(at); }

}  // namespace granary
