package profile

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	"github.com/google/pprof/profile"
)

const (
	program = 0x400000
	library = 0x7f0000000000
	jitted  = 0x7e0000000000
)

// sample is the heap of a program with four functions, one of them generated at run time.
func sample() Heap {
	amount := func(objects, bytes float64) inspect.Amount { return inspect.Amount{Objects: objects, Bytes: bytes} }
	return Heap{
		Title: "process 812 (server), Granary 0.1.0", Library: "/usr/lib/libgranary.so", Taken: time.Unix(1e9, 0),
		Modules: []inspect.Module{
			{Start: library, End: library + 0x1000, Path: "/usr/lib/libgranary.so"},
			{Start: program, End: program + 0x1000, Offset: 0x1000, Path: "/usr/bin/server", BuildID: "c0ffee"},
		},
		Samples: &inspect.Samples{
			Active: true, Collected: true, Rate: 512 << 10, Taken: 1234, For: 30 * time.Second, Lost: inspect.Lost{Stacks: 3}, Ends: inspect.Ends{Early: 12, Guessed: 1},
			Stacks: []inspect.Stack{
				{Frames: []uint64{library + 0x20, program + 0x101, program + 0x11}, Allocated: amount(1000, 64000), Freed: amount(400, 25600), Lifetimes: []float64{0, 300, 100, 0}},
				{Frames: []uint64{jitted + 5, program + 0x11}, Allocated: amount(5, 5<<20), Temporary: amount(1, 1<<20)},
				{Frames: []uint64{program + 0x201}, Allocated: amount(9e6, 9<<30), Freed: amount(9e6, 9<<30), Lifetimes: []float64{10, 10, 20, 60}},
			},
		},
		Before: []inspect.Before{{Class: 5, Size: 64, Objects: 100, Bytes: 6400}, {Objects: 1, Bytes: 2 << 20}},
		Arenas: Arenas{Count: 2, Bytes: 3 << 20},
		Pins:   &Pins{Stacks: []float64{40960, 0, 0}, Total: 50000, Pages: 13},
	}
}

// named gives the addresses of sample() names.
func named(t *testing.T, p *profile.Profile) {
	t.Helper()
	for _, l := range p.Location {
		name := map[uint64]string{program + 0x100: "Store::Put", program + 0x10: "main", jitted + 4: "parse"}[l.Address]
		if name == "" || len(l.Line) > 0 {
			continue
		}
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, SystemName: name, Filename: "server.cc"}
		p.Function = append(p.Function, f)
		l.Line = []profile.Line{{Function: f, Line: 7}}
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
}

func TestProfileSurvivesBeingWritten(t *testing.T) {
	built := sample().Build()
	named(t, built.Profile)
	var file bytes.Buffer
	if err := built.Write(&file); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&file)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Check(t, "testdata/profile.golden", []byte(p.String()))
	if DefaultIndex(p) != Index(p, InUseSpace) {
		t.Error("bytes in use are not shown first")
	}
}

func TestTextShowsEachKind(t *testing.T) {
	h := sample()
	built := h.Build()
	named(t, built.Profile)
	var out bytes.Buffer
	for _, k := range Kinds {
		out.WriteString(k.Says + "\n")
		number := -1
		if k.Number != "" {
			number = Index(built.Profile, k.Number)
		}
		WriteText(&out, built.Profile, Index(built.Profile, k.Type), number, 2, 0)
	}
	out.WriteString("lifetimes\n")
	WriteLifetimes(&out, h, built, 0, 0)
	out.WriteString(strings.Join(h.Words(), "\n") + "\n")
	testkit.Check(t, "testdata/text.golden", out.Bytes())
}

func TestCollapsedAndFlame(t *testing.T) {
	p := sample().Build().Profile
	named(t, p)
	var out, picture bytes.Buffer
	if err := WriteCollapsed(&out, p, Index(p, InUseSpace)); err != nil {
		t.Fatal(err)
	}
	testkit.Check(t, "testdata/collapsed.golden", out.Bytes())
	if err := WriteFlame(&picture, p, Index(p, InUseSpace), "in use <&>"); err != nil {
		t.Fatal(err)
	}
	testkit.Check(t, "testdata/flame.svg.golden", picture.Bytes())
}

// The corrections that readers make for sampling must not change the estimates of the profile.
func TestHeapV2IsReadBack(t *testing.T) {
	p := sample().Build().Profile
	var out bytes.Buffer
	if err := WriteHeapV2(&out, p); err != nil {
		t.Fatal(err)
	}
	testkit.Check(t, "testdata/heap_v2.golden", out.Bytes())
	back, err := parseHeapV2(out.String())
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, s := range back.Sample {
		for i, v := range s.Value {
			sums[back.SampleType[i].Type] += v
		}
	}
	if sums["inuse_objects"] != 605 || sums["inuse_space"] != 38400+5<<20 || sums["alloc_space"] != 64000+5<<20+9<<30 {
		t.Errorf("pprof reads %v", sums)
	}
}

// jemalloc writes samples: 1 of 100 bytes at a distance of 1,000 counts as 1 / (1 - e^-0.1).
func TestHeapV2IsCorrectedForSampling(t *testing.T) {
	p, err := parseHeapV2("heap_v2/1000\n  t*: 1: 100 [1: 100]\n  t0: 1: 100 [1: 100]\n@ 0x400101 0x400011\n  t*: 1: 100 [10: 1000]\n  t0: 1: 100 [10: 1000]\n\nMAPPED_LIBRARIES:\n400000-401000 r-xp 00001000 08:01 42 /usr/bin/server\n")
	if err != nil {
		t.Fatal(err)
	}
	s := p.Sample[0]
	if len(p.Sample) != 1 || !slices.Equal(s.Value, []int64{11, 1051, 105, 10508}) || s.Location[0].Address != 0x400100 || s.Location[0].Mapping.File != "/usr/bin/server" {
		t.Errorf("read %v", p)
	}
	for _, bad := range []string{"heap_v2/x\n", "heap_v2/8\n@ zz\n", "heap_v2/8\n@ 0x1\n t*: many\n"} {
		if _, err := parseHeapV2(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestDiffIsWhatGrew(t *testing.T) {
	before, after := sample(), sample()
	after.Samples.Stacks[0].Allocated.Bytes += 1 << 20
	after.Samples.Stacks[1].Freed = inspect.Amount{Objects: 5, Bytes: 5 << 20}
	a, b := after.Build().Profile, before.Build().Profile
	named(t, a)
	named(t, b)
	d, err := Subtract(a, b)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	WriteText(&out, d, Index(d, InUseSpace), -1, 0, 0)
	testkit.Check(t, "testdata/diff.golden", out.Bytes())
}

func TestEmptyProfileIsReported(t *testing.T) {
	h := Heap{Samples: &inspect.Samples{}}
	var out bytes.Buffer
	WriteText(&out, h.Build().Profile, 1, 0, 0, 0)
	if out.String() != "There is nothing of this kind in the profile.\n" {
		t.Errorf("printed %q", out.String())
	}
	out.Reset()
	if err := WriteFlame(&out, h.Build().Profile, 1, "nothing"); err != nil || !strings.HasSuffix(out.String(), "</svg>\n") {
		t.Errorf("%v, drew %q", err, out.String())
	}
}

// The objects that were live before are the live ones less the newer ones, and never more than before.
func TestWhatLivedBefore(t *testing.T) {
	s := &inspect.Samples{
		Before: []inspect.Before{{Class: 1, Size: 8, Objects: 100, Bytes: 800}, {Class: 2, Size: 16, Objects: 50, Bytes: 800}, {Class: 3, Size: 24, Objects: 9, Bytes: 216}},
		Live:   []inspect.Sample{{Class: 1, Bytes: 8, Objects: 30}, {Class: 1, Bytes: 8, Objects: 10}},
	}
	figures := &inspect.Snapshot{Classes: []inspect.Class{{Size: 8, Live: 90}, {Size: 16, Live: 500}, {Size: 24}}}
	got := stillLive(s, figures)
	if len(got) != 2 || got[0].Objects != 50 || got[0].Bytes != 400 || got[1].Objects != 50 || got[1].Bytes != 800 {
		t.Errorf("still live: %+v", got)
	}
}

// Each idle byte of a page with live objects is one object's, or shared; empty and clean pages are
// nobody's.
func TestPinsAddUpToTheIdleBytes(t *testing.T) {
	const page, size = 4096, 1000 // objects cross pages
	slab := inspect.Slab{Address: 1 << 20, Bytes: 4 * page, Class: 3, ObjectSize: size, Objects: 16, FreeBits: []uint64{0xffff}, CachedBits: []uint64{0}, CleanPages: 1 << 3}
	s := &inspect.Samples{Stacks: make([]inspect.Stack, 2)}
	for i, object := range []uint64{0, 1, 4, 9} { // 4 is on pages 0 and 1, 9 on page 2
		slab.FreeBits[0] &^= 1 << object
		s.Live = append(s.Live, inspect.Sample{Address: slab.Address + size*object, Stack: i / 3, Objects: 1})
	}
	slab.FreeBits[0] &^= 1 << 10 // live, and in a cache
	slab.CachedBits[0] |= 1 << 10
	h := &inspect.HeapMap{OSPage: page, Slabs: []inspect.Slab{slab}}
	pins := FindPins(s, h)
	page0, page1, page2 := float64(page-2000-96), float64(page-904), float64(page-1000)
	if want := uint64(page0 + page1 + page2); pins.Total != want || pins.Pages != 3 {
		t.Errorf("%d idle bytes on %d pages, want %d on 3", pins.Total, pins.Pages, want)
	}
	if math.Abs(pins.Stacks[0]-page0-page1) > 1e-6 || pins.Stacks[1] != page2 || pins.Unknown() > 1e-6 {
		t.Errorf("pinned by stack: %v, unknown %v", pins.Stacks, pins.Unknown())
	}
}

func TestViewReadsFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	p := sample().Build().Profile
	named(t, p)
	granary, jemalloc := filepath.Join(dir, "granary.pb.gz"), filepath.Join(dir, "jemalloc.heap")
	var file, text bytes.Buffer
	if err := p.Write(&file); err != nil {
		t.Fatal(err)
	}
	if err := WriteHeapV2(&text, p); err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{granary: file.Bytes(), jemalloc: text.Bytes(), filepath.Join(dir, "bad"): []byte("no profile")} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		want string
		code int
	}{
		{granary, "Store::Put < main", 0},
		{granary + " --alloc", "9.0 GiB", 0},
		{jemalloc, "server+0x", 0},
		{jemalloc + " --pins", "the profile does not tell pinned_space: it has ", 1},
		{granary + " --pprof top,cum", "main", 0},
		{granary + " --pins --alloc", "choose one of --alloc and --pins", 2},
		{filepath.Join(dir, "bad"), "is not a profile that can be read", 1},
		{filepath.Join(dir, "none"), "there is no file", 1},
		{granary + " --collapsed --heap_v2", "choose one of", 2},
	} {
		out, errs, code := command(t, View, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: code %d, printed %s%s", c.args, code, out, errs)
		}
	}
	if out, errs, code := command(t, Diff, granary, granary); code != 0 || !strings.Contains(out, "nothing of this kind") {
		t.Errorf("diff with itself: code %d, %s%s", code, out, errs)
	}
}

func TestSymbolsComeFromTheFinder(t *testing.T) {
	p := sample().Build().Profile
	f := &symbol.Finder{Jitted: symbol.ParseJITMap("7e0000000000 10 py::parse:/srv/app.py\n")}
	out := f.Symbolize(context.Background(), p)
	if out.Named != 1 || len(out.Missing) != 1 || !strings.Contains(out.Missing[0], "c0ffee") {
		t.Errorf("outcome %+v", out)
	}
}

// Counting by words and one by one agree, for all sizes and places.
func TestPagesOfRandomSlabs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const page = 4096
	for range 300 {
		s := inspect.Slab{Bytes: 16 * page, ObjectSize: 8 * (1 + random.Uint64N(1000))}
		s.Objects = int(s.Bytes / s.ObjectSize)
		for range s.Objects/64 + 1 {
			s.FreeBits = append(s.FreeBits, random.Uint64()&random.Uint64())
			s.CachedBits = append(s.CachedBits, random.Uint64()&random.Uint64()&random.Uint64())
		}
		for p := range uint64(16) {
			live, used := uint64(0), uint64(0)
			for i := range uint64(s.Objects) {
				from, to := max(p*page, i*s.ObjectSize), min((p+1)*page, (i+1)*s.ObjectSize)
				if from < to && s.Holds(int(i)) {
					live++
					used += to - from
				}
			}
			if gotLive, gotIdle := s.Occupied(page, p); gotLive != live || gotIdle != page-used {
				t.Fatalf("page %d of objects of %d bytes: %d live, %d idle; want %d, %d", p, s.ObjectSize, gotLive, gotIdle, live, page-used)
			}
		}
	}
}

// If the allocator is linked into the program, only the names identify its frames.
func TestFramesOfALinkedAllocatorAreLeftOut(t *testing.T) {
	var stack []*profile.Location
	for _, name := range []string{"granary::Heap::SampleDue", "malloc", "Store::Put", "malloc", "main"} {
		stack = append(stack, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}})
	}
	if got := NamesOf(withoutAllocator(stack)); !slices.Equal(got, []string{"Store::Put", "malloc", "main"}) {
		t.Errorf("left are %v", got)
	}
	if got := withoutAllocator(stack[:1]); len(got) != 1 {
		t.Error("nothing is left of a stack")
	}
}
