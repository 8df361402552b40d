package heap

import (
	"bytes"
	"context"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

const (
	base    = 0x7f0000000000
	granule = 16384
	tracker = 2 << 20
)

func bitsOf(from, to int) []uint64 {
	words := make([]uint64, 2)
	for i := from; i < to; i++ {
		words[i/64] |= 1 << (i % 64)
	}
	return words
}

// example has trackers of every state, slabs of two classes, and damage.
func example() *inspect.HeapMap {
	h := &inspect.HeapMap{OSPage: 4096, Granule: granule, Damage: []string{"the slab at 0x7f0000010000 counts 3 free objects, its bits say 4"}}
	for i, state := range []inspect.TrackerState{inspect.TrackerSpans, inspect.TrackerSpans, inspect.TrackerLargeHead, inspect.TrackerLargeBody,
		inspect.TrackerFree, inspect.TrackerFree, inspect.TrackerDamaged} {
		h.Trackers = append(h.Trackers, inspect.Tracker{Address: base + uint64(i)*tracker, State: state, UsedBits: bitsOf(0, 0), DirtyBits: bitsOf(0, 0)})
	}
	h.Trackers = append(h.Trackers, inspect.Tracker{Address: base + 1<<30, State: inspect.TrackerSpans, UsedBits: bitsOf(0, 128), DirtyBits: bitsOf(0, 0)})
	h.Trackers[0].UsedBits, h.Trackers[0].DirtyBits = bitsOf(0, 9), bitsOf(100, 128)
	h.Trackers[1].UsedBits = bitsOf(0, 4)
	h.Trackers[4].DirtyBits = bitsOf(0, 128)
	h.Slabs = []inspect.Slab{
		{Address: base, Bytes: 4 * granule, Class: 1, ObjectSize: 4096, Objects: 16, Free: 4, Cached: 4, FreeBits: []uint64{0xf}, CachedBits: []uint64{0xf0}, CleanPages: 0x3},
		{Address: base + 4*granule, Bytes: 4 * granule, Class: 1, ObjectSize: 4096, Objects: 16, FreeBits: []uint64{0}, CachedBits: []uint64{0}},
		{Address: base + tracker, Bytes: 4 * granule, Class: 2, ObjectSize: 32768, Objects: 2, Free: 2, FreeBits: []uint64{3}, CachedBits: []uint64{0}},
	}
	for i := range uint64(32) {
		h.Slabs = append(h.Slabs, inspect.Slab{Address: base + 1<<30 + i*4*granule, Bytes: 4 * granule, Class: 3, ObjectSize: 1024, Objects: 64, Free: int(2 * i),
			FreeBits: []uint64{1<<(2*i) - 1}, CachedBits: []uint64{0}})
	}
	h.Medium = []inspect.Block{{Address: base + 8*granule, Size: granule}, {Address: base + tracker + 8*granule, Size: 2 * granule, Cached: true}}
	h.Large = []inspect.Block{{Address: base + 2*tracker, Size: tracker + 5*granule}}
	return h
}

func TestGranulesAreOfTheRightKind(t *testing.T) {
	p := Draw("x", example())
	want := map[Kind]uint64{Slab: (8 + 4 + 128) * granule, Object: granule, Kept: 2 * granule, Large: (128 + 5) * granule, Dirty: (28 + 128) * granule, Damaged: tracker}
	sum := uint64(0)
	for _, n := range want {
		sum += n
	}
	want[Clean] = 8*tracker - sum
	for kind, got := range p.Totals() {
		if got != want[Kind(kind)] {
			t.Errorf("%v: %d granules, want %d", Kind(kind), got/granule, want[Kind(kind)]/granule)
		}
	}
	if live := p.Trackers[0].Live; live != 8*4096+16*4096+granule {
		t.Errorf("the first tracker holds %d live bytes", live)
	}
}

func TestTextAndPictures(t *testing.T) {
	p := Draw("process 812 (app), Granary 0.1.0", example())
	p.Fragmentation = 1.234
	var out bytes.Buffer
	p.Write(&out, 80)
	testkit.Check(t, "testdata/heap.golden", out.Bytes())
	out.Reset()
	if err := p.SVG(&out); err != nil {
		t.Fatal(err)
	}
	testkit.Check(t, "testdata/heap.svg", out.Bytes())
	out.Reset()
	if err := p.PNG(&out); err != nil {
		t.Fatal(err)
	}
	image, err := png.Decode(&out)
	if err != nil || image.Bounds().Dx() < 900 || image.Bounds().Dy() < 100 {
		t.Fatalf("%v", err)
	}
	colors := map[[3]uint32]bool{}
	for y := range image.Bounds().Dy() {
		for x := range image.Bounds().Dx() {
			r, g, b, _ := image.At(x, y).RGBA()
			colors[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
		}
	}
	for kind, c := range colorsOf() {
		if !colors[[3]uint32{uint32(c.R), uint32(c.G), uint32(c.B)}] {
			t.Errorf("the picture has no pixel of the colour of %v", kind)
		}
	}
}

// colorsOf are those of the kinds in the example.
func colorsOf() map[Kind]struct{ R, G, B uint8 } {
	out := map[Kind]struct{ R, G, B uint8 }{}
	for _, k := range []Kind{Clean, Dirty, Object, Kept, Large, Damaged} {
		out[k] = struct{ R, G, B uint8 }{colors[k].R, colors[k].G, colors[k].B}
	}
	return out
}

func TestALargeHeapIsDrawnWithoutGranules(t *testing.T) {
	h := example()
	for i := range uint64(5000) {
		h.Trackers = append(h.Trackers, inspect.Tracker{Address: base + 2<<30 + i*tracker, State: inspect.TrackerFree, UsedBits: bitsOf(0, 0), DirtyBits: bitsOf(0, int(i%128))})
	}
	var out bytes.Buffer
	if err := Draw("large", h).SVG(&out); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 2<<20 {
		t.Errorf("the SVG has %d bytes", out.Len())
	}
}

func TestManyClassesAreSummedUp(t *testing.T) {
	var p Picture
	for i := range uint64(60) {
		p.Classes = append(p.Classes, Class{Size: 16 * (i + 1), Slabs: 1, Bytes: 65536 + i, Live: i})
	}
	shown := p.shown()
	var bytes, live uint64
	for _, c := range shown {
		bytes += c.Bytes
		live += c.Live
	}
	if len(shown) != mostClasses+1 || shown[mostClasses].label() != "other" || bytes != 60*65536+59*60/2 || live != 59*60/2 {
		t.Errorf("%d classes, %d bytes, %d live", len(shown), bytes, live)
	}
}

func call(args ...string) (string, string, int) {
	var out, errs bytes.Buffer
	code := cli.Main(context.Background(), cli.Env{Stdout: &out, Stderr: &errs}, []cli.Command{Command}, append([]string{"heap"}, args...))
	return out.String(), errs.String(), code
}

// holder is a stopped python under the built library.
func holder(t *testing.T) int {
	t.Helper()
	process := testkit.Python(t, "import time\nheld = [bytes(500 + i % 3000) for i in range(20000)]\nbig = bytes(5 << 20)\nprint('ready', flush=True)\ntime.sleep(60)",
		"LD_PRELOAD="+testkit.Library(t), "PYTHONMALLOC=malloc")
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, process.Pid, "T")
	return process.Pid
}

func TestARealHeapAndItsCore(t *testing.T) {
	pid := strconv.Itoa(holder(t))
	subjects := []string{pid}
	if gcore, err := exec.LookPath("gcore"); err == nil {
		prefix := filepath.Join(t.TempDir(), "core")
		if out, err := exec.Command(gcore, "-o", prefix, pid).CombinedOutput(); err != nil {
			t.Logf("no core: %v\n%s", err, out)
		} else {
			subjects = append(subjects, prefix+"."+pid)
		}
	}
	var walks []string
	for _, subject := range subjects {
		text, errs, code := call(subject)
		if code != 0 || !strings.Contains(text, "blocks above 1 MiB") || !strings.Contains(text, "Slabs by object size") {
			t.Errorf("%s: code %d, said %q, printed\n%s", subject, code, errs, text)
		}
		list, errs, code := call(subject, "--walk")
		lines := strings.Count(list, "\n")
		if code != 0 || lines < 20000 {
			t.Errorf("%s: code %d, said %q, %d live objects", subject, code, errs, lines)
		}
		walks = append(walks, list)
	}
	if len(walks) == 2 && walks[0] != walks[1] {
		t.Error("the process and its core differ in what lives")
	}
	dir := t.TempDir()
	if _, errs, code := call(pid, "--svg", dir+"/a.svg", "--png", dir+"/a.png"); code != 0 {
		t.Errorf("code %d, said %q", code, errs)
	}
	for _, name := range []string{"a.svg", "a.png"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, errs, code := call(pid, "--svg", "/nowhere/a.svg"); code != 1 || !strings.Contains(errs, "write the picture") {
		t.Errorf("code %d, said %q", code, errs)
	}
}

func TestADamagedHeapEndsWithOne(t *testing.T) {
	var out bytes.Buffer
	err := options{}.show(cli.Env{Stdout: &out}, Draw("x", example()), example())
	if err == nil || !strings.Contains(err.Error(), "damaged (1 findings), the first: the slab at") || !strings.Contains(out.String(), "Damaged:") {
		t.Errorf("%v", err)
	}
}

// The structures of a real heap are overwritten: the command names damage or refuses, and ends.
func TestOverwrittenStructuresAreNamed(t *testing.T) {
	pid := holder(t)
	target, err := inspect.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	h, err := target.HeapMap()
	if err != nil || len(h.Metadata) == 0 {
		t.Fatalf("%v, %d ranges of structures", err, len(h.Metadata))
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	memory, err := os.OpenFile(procfs.Live().Path(pid, "mem"), os.O_RDWR, 0)
	if err != nil {
		t.Skipf("the memory of the process cannot be written: %v", err)
	}
	defer memory.Close()
	// All but the head of each range, which links them; a page at a time, because untouched memory
	// stays so.
	for _, r := range h.Metadata {
		for at := r.Start + 4096; at < min(r.End, r.Start+1<<20); at += 512 {
			if _, err := memory.WriteAt([]byte{0xff, 0xee, 0xdd}, int64(at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, errs, code := call(strconv.Itoa(pid))
	if code != cli.CodeFailed || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "damaged") {
		t.Errorf("code %d, said %q, printed\n%s", code, errs, out)
	}
	t.Log(strings.TrimSpace(errs))
}

// Partly used pages are listed with their objects and stacks; full, empty and clean pages are not.
func TestPagesThatAreHeld(t *testing.T) {
	held := Held(example(), map[uint64]string{base + 1<<30: "Put < main"})
	held.Title = "process 812 (app), Granary 0.1.0"
	for i, p := range held.Worst {
		if p.Idle == 0 || p.Live == 0 || p.Idle >= 4096 || i > 0 && p.Idle > held.Worst[i-1].Idle {
			t.Errorf("page %+v", p)
		}
	}
	held.Worst = held.Worst[:5]
	var out bytes.Buffer
	held.write(&out, 80)
	testkit.Check(t, "testdata/pages.golden", out.Bytes())
}
