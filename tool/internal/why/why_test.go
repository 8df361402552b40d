package why

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

const page = 4096

// resident is a set of pages that are in memory.
type resident map[uint64]bool

func (r resident) Resident(start, end uint64, visit func(start, end uint64)) error {
	for at := start &^ (page - 1); at < end; at += page {
		if r[at] {
			visit(at, at+page)
		}
	}
	return nil
}

// pages are the pages of ranges given as first, one past the last.
func pages(ranges ...uint64) resident {
	r := resident{}
	for i := 0; i < len(ranges); i += 2 {
		for at := ranges[i]; at < ranges[i+1]; at += page {
			r[at] = true
		}
	}
	return r
}

const chunk = 0x7f0000000000

// example is a heap of one chunk of two trackers: a slab of 16 objects of 4,096 bytes, a slab of
// 1,024-byte objects, an object of a granule, free spans, and a large block of a page less than 2 MiB.
func example() *inspect.HeapMap {
	const granule = 16384
	used := []uint64{0x1ff, 0} // two slabs of 4 granules, and one object
	return &inspect.HeapMap{
		OSPage: page, Granule: granule,
		Chunks:   []inspect.Range{{Start: chunk, End: chunk + 4<<20}},
		Metadata: []inspect.Range{{Start: chunk + 16<<20, End: chunk + 17<<20}},
		Static:   []inspect.Range{{Start: chunk + 32<<20 + 100, End: chunk + 32<<20 + 5000}},
		Trackers: []inspect.Tracker{
			{Address: chunk, State: inspect.TrackerSpans, Used: 9, Dirty: 2, UsedBits: used, DirtyBits: []uint64{0x600, 0}},
			{Address: chunk + 2<<20, State: inspect.TrackerLargeHead, UsedBits: []uint64{0, 0}, DirtyBits: []uint64{0, 0}},
		},
		Slabs: []inspect.Slab{
			{Address: chunk, Bytes: 4 * granule, Class: 1, ObjectSize: 4096, Objects: 16, Free: 8, Cached: 2,
				FreeBits: []uint64{0xff00}, CachedBits: []uint64{0x3}, CleanPages: 0xf000},
			{Address: chunk + 4*granule, Bytes: 4 * granule, Class: 2, ObjectSize: 1024, Objects: 64, Free: 32,
				FreeBits: []uint64{0x5555555555555555}, CachedBits: []uint64{0}},
		},
		Medium: []inspect.Block{{Address: chunk + 8*granule, Size: granule}},
		Large:  []inspect.Block{{Address: chunk + 2<<20, Size: 2<<20 - page}},
	}
}

func TestEveryPageIsCountedOnce(t *testing.T) {
	everything := pages(chunk, chunk+4<<20, chunk+16<<20, chunk+16<<20+8*page, chunk+32<<20, chunk+32<<20+2*page)
	r, err := Measure(example(), everything)
	if err != nil {
		t.Fatal(err)
	}
	want := Residency{
		Live:   6*4096 + 32*1024 + 16384 + 2<<20 - page,
		Cached: 2 * 4096, SlabFree: 4*4096 + 32*1024, Dirty: 2 * 16384,
		Clean:     4*4096 + (128-9-2)*16384 + page,
		Structure: 8*page + 4900,
		LiveBytes: 6*4096 + 32*1024 + 16384 + 2<<20 - page,
	}
	want.ranges, r.ranges = nil, r.ranges[:0:0]
	if fmt.Sprint(r) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
	if r.Total() != 4<<20+8*page+4900 {
		t.Errorf("total %d", r.Total())
	}
}

func TestPartsOfASlabThatAreNotInMemory(t *testing.T) {
	// Of the first slab the page of a live, a cached and a free object; of the second one page of four
	// objects, every other free; a quarter of the large block.
	some := pages(chunk, chunk+page, chunk+2*page, chunk+3*page, chunk+9*page, chunk+10*page, chunk+16*page, chunk+17*page, chunk+2<<20, chunk+2<<20+512<<10)
	r, err := Measure(example(), some)
	if err != nil {
		t.Fatal(err)
	}
	if r.Live != page+2*1024+512<<10 || r.Cached != page || r.SlabFree != page+2*1024 || r.Dirty+r.Clean+r.Structure != 0 {
		t.Errorf("%+v", r)
	}
}

func snapshot() *inspect.Snapshot {
	m := func(name string, v uint64) inspect.Metric { return inspect.Metric{Name: name, Unit: "bytes", Value: v} }
	return &inspect.Snapshot{Version: "0.1.0", Consistent: true,
		Metrics: []inspect.Metric{m("rounding_expected", 2<<10), m("cached", 3000), m("depot", 1000), m("live_objects", 40), m("large", 2<<20), m("large_blocks", 1), m("caches", 2)},
		Classes: []inspect.Class{
			{Size: 4096, Small: true, Live: 6, Slabs: 1, SlabBytes: 65536, CleanBytes: 16384},
			{Size: 1024, Small: true, Live: 32, Slabs: 1, SlabBytes: 65536}},
	}
}

func region(start, end uint64, perms, path string, rss uint64) procfs.Region {
	return procfs.Region{Mapping: procfs.Mapping{Start: start, End: end, Perms: perms, Path: path}, RSS: rss}
}

func TestTheWaterfallAddsUp(t *testing.T) {
	r, err := Measure(example(), pages(chunk, chunk+4<<20, chunk+16<<20, chunk+16<<20+8*page, chunk+32<<20, chunk+32<<20+2*page))
	if err != nil {
		t.Fatal(err)
	}
	regions := procfs.Classify([]procfs.Region{
		region(0x1000, 0x201000, "r-xp", "/usr/bin/app", 1<<20),
		region(chunk, chunk+4<<20, "rw-p", "", 4<<20-2*page), // two pages went while it was read
		region(chunk+16<<20, chunk+24<<20, "rw-p", "", 8*page+64<<10),
		region(chunk+31<<20, chunk+32<<20, "rw-p", "/lib/libgranary.so.1", 12<<10),
		region(chunk+32<<20, chunk+33<<20, "rw-p", "", 8*page),
		region(chunk+40<<20, chunk+41<<20, "rw-p", "[stack]", 132<<10),
	})
	kernel := procfs.TotalRSS(regions)
	w := ForGranary(812, "process 812 (app), granary 0.1.0, preloaded", Heap{Snapshot: snapshot(), Residency: r, Library: "/lib/libgranary.so.1", Shared: true}, regions, kernel)
	if w.RSS != kernel || w.Bytes("unmatched") != -2*page || w.Bytes("anonymous") != 64<<10 || w.Bytes("library") != 12<<10+8*page-4900 {
		t.Errorf("%+v", w)
	}
	var out bytes.Buffer
	w.write(&out, 120)
	testkit.Check(t, "testdata/granary.golden", out.Bytes())
	if want := "39 % of RSS (2.1 MiB of 5.3 MiB) is live"; !strings.HasPrefix(w.Summary, want) {
		t.Errorf("the summary is %q, want %q", w.Summary, want)
	}
	out.Reset()
	w.write(&out, 80)
	if long := testkit.LongerThan(80, out.String()); len(long) > 0 || strings.Contains(out.String(), "estimate") || strings.Count(out.String(), "█") < 60 {
		t.Errorf("at 80 columns:\n%s", out.String())
	}
	out.Reset()
	if err := term.JSON(&out, w); err != nil {
		t.Fatal(err)
	}
	testkit.Check(t, "testdata/granary.json", out.Bytes())
}

// The row "live" includes memory that was never touched, the cause only what is resident: the text says so.
func TestACauseSaysWhatOfLiveMemoryIsResident(t *testing.T) {
	steps := []Step{{Key: "live", Bytes: 93 << 20, Sum: true}, {Key: "untouched", Bytes: -1 << 20}}
	w := Waterfall{PID: 812, RSS: 184 << 20, Steps: steps}
	w.explain(&Heap{Snapshot: snapshot()}, nil)
	if got, want := w.heading(w.Causes[0]), "live (93 MiB, of which 92 MiB is resident)"; got != want {
		t.Errorf("the cause is %q, want %q", got, want)
	}
	if want := "50 % of RSS (92 MiB of 184 MiB) is live and resident: "; !strings.HasPrefix(w.Summary, want) {
		t.Errorf("the summary is %q, want %q", w.Summary, want)
	}
	for _, untouched := range []int64{0, -4096} { // nothing, and too little for a figure of its own
		steps[1].Bytes = untouched
		all := Waterfall{PID: 812, RSS: 184 << 20, Steps: steps}
		all.explain(&Heap{Snapshot: snapshot()}, nil)
		if got := all.heading(all.Causes[0]); got != "live (93 MiB)" || strings.Contains(all.Summary, "resident") {
			t.Errorf("with %d bytes untouched the cause is %q, the summary %q", untouched, got, all.Summary)
		}
	}
}

func TestOtherAllocators(t *testing.T) {
	lazy := region(0x7f0010000000, 0x7f0014000000, "rw-p", "", 40<<20)
	lazy.LazyFree = 10 << 20
	regions := procfs.Classify([]procfs.Region{
		region(0x1000, 0x201000, "r-xp", "/usr/bin/app", 1<<20),
		region(0x400000, 0x4400000, "rw-p", "[heap]", 50<<20),
		region(0x7f0000000000, 0x7f0001000000, "rw-p", "", 9<<20),
		region(0x7f0001000000, 0x7f0004000000, "---p", "", 0),
		lazy,
		region(0x7f0020000000, 0x7f0020001000, "---p", "", 0),
		region(0x7f0020001000, 0x7f0020801000, "rw-p", "", 20<<10),
	})
	for _, name := range []string{"glibc", "jemalloc"} {
		var out bytes.Buffer
		w := OfOtherAllocator(77, "process 77 (app), "+name, inspect.Running{Name: name}, regions, procfs.TotalRSS(regions))
		if w.RSS != w.Kernel {
			t.Errorf("%s: the sum is %d, RSS %d", name, w.RSS, w.Kernel)
		}
		w.write(&out, 120)
		testkit.Check(t, "testdata/"+name+".golden", out.Bytes())
	}
}

func TestACoreIsExplainedByGranarysOwnAccount(t *testing.T) {
	s := snapshot()
	s.Metrics = append(s.Metrics, inspect.Metric{Name: "metadata_used", Unit: "bytes", Value: 9000})
	w, err := ForCore("core file core.812, Granary 0.1.0", s, example())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w.write(&out, 120)
	testkit.Check(t, "testdata/core.golden", out.Bytes())
}

func TestTheSteadiestReadingIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		rss  []uint64 // the kernel's figure at each reading; the sum is 1000
		want uint64
		used int
	}{
		"the first is good": {[]uint64{1000, 5000}, 1000, 1},
		"a later one is":    {[]uint64{900, 1200, 1000, 900}, 1000, 3},
		"none is":           {[]uint64{900, 1200, 950, 1100, 1300, 1300, 1300, 1300}, 950, 8},
	} {
		used := 0
		w, err := steadiest(func() (Waterfall, error) {
			used++
			return Waterfall{RSS: 1000, Kernel: c.rss[used-1]}, nil
		})
		if err != nil || w.Kernel != c.want || used != c.used {
			t.Errorf("%s: %d after %d readings, %v", name, w.Kernel, used, err)
		}
	}
}
