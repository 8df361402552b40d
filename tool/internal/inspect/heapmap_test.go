package inspect

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

func mustMap(t *testing.T, target *Target) *HeapMap {
	t.Helper()
	h, err := target.HeapMap()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range h.Damage {
		t.Errorf("damage in a healthy heap: %s", d)
	}
	return h
}

// mapAgrees compares the content of the map with the figures.
func mapAgrees(t *testing.T, h *HeapMap, s *Snapshot) {
	t.Helper()
	var live, objects, slabs, partial, free, clean, cached, mapped, used, dirty, metadata, leaves uint64
	h.Walk(func(o Object) bool {
		live += o.Size
		objects++
		return true
	})
	for _, b := range h.Large { // the figures count them in granules
		live += -b.Size & (h.Granule - 1)
	}
	for _, slab := range h.Slabs {
		slabs++
		if slab.Free > 0 {
			partial++
		}
		free += slab.Bytes - uint64(slab.Objects-slab.Free)*slab.ObjectSize
		clean += slab.CleanBytes(h.OSPage)
		cached += uint64(slab.Cached)
	}
	for _, b := range h.Medium {
		if b.Cached {
			cached++
		}
	}
	for _, tracker := range h.Trackers {
		used += uint64(tracker.Used) * h.Granule
		dirty += uint64(tracker.Dirty) * h.Granule
	}
	for _, r := range h.Chunks {
		mapped += r.Bytes()
	}
	for _, r := range h.Metadata {
		metadata += r.Bytes()
	}
	for _, r := range h.PageMap {
		leaves += r.Bytes()
	}
	depot := uint64(0)
	for _, c := range s.Classes {
		depot += c.Depot
	}
	inCaches, _ := s.Value("cached_objects")
	for name, got := range map[string]uint64{
		"live": live, "live_objects": objects, "slabs": slabs, "partial_slabs": partial, "slab_free": free,
		"slab_clean": clean, "mapped": mapped, "used_spans": used, "dirty": dirty,
		"mapped_metadata": metadata, "page_map": leaves, "large_blocks": uint64(len(h.Large)),
	} {
		if want, ok := s.Value(name); !ok || want != got {
			t.Errorf("the map adds up to a %s of %d, the figure is %d", name, got, want)
		}
	}
	if cached != inCaches+depot {
		t.Errorf("the map finds %d objects in caches and depot, the figures are %d and %d", cached, inCaches, depot)
	}
}

func TestTheMapAddsUpToTheFigures(t *testing.T) {
	h := hold(t, "stop", quiet)
	waitForState(t, h.pid(), "T")
	target := mustOpen(t, h.pid())
	mapAgrees(t, mustMap(t, target), mustSnapshot(t, target))
}

// Stopped wherever it happens to be, a storm's map has no damage unless it says that it may.
func TestAStormThatIsStoppedIsConsistentOrSaysSo(t *testing.T) {
	h := hold(t, "storm", "")
	target := mustOpen(t, h.pid())
	consistent := 0
	for range 40 {
		syscall.Kill(h.pid(), syscall.SIGSTOP)
		waitForState(t, h.pid(), "T")
		s := mustSnapshot(t, target)
		m, err := target.HeapMap()
		if err != nil {
			t.Fatal(err)
		}
		if m.Consistent {
			consistent++
			if len(m.Damage) > 0 {
				t.Errorf("damage in a healthy heap: %s", m.Damage)
			}
			var used uint64
			for _, tracker := range m.Trackers {
				used += uint64(tracker.Used) * m.Granule
			}
			if want, _ := s.Value("used_spans"); used != want {
				t.Errorf("the map has %d bytes of spans, the figure is %d", used, want)
			}
		}
		if s.Consistent != (s.Bound == 0) {
			t.Errorf("consistent is %v with a bound of %d", s.Consistent, s.Bound)
		}
		syscall.Kill(h.pid(), syscall.SIGCONT)
		time.Sleep(3 * time.Millisecond)
	}
	if consistent == 0 {
		t.Error("no reading of 40 was consistent: a stopped process should be, mostly")
	}
	t.Logf("%d of 40 consistent", consistent)
}

func TestTheMapOfAStormIsBounded(t *testing.T) {
	h := hold(t, "storm", "")
	target := mustOpen(t, h.pid())
	for range 10 {
		if _, err := target.HeapMap(); err != nil {
			t.Fatal(err)
		}
	}
}

// coreOf lets the holder end with a core file of the kernel's; "" if this machine makes none.
func coreOf(t *testing.T, options string) (string, map[string]uint64) {
	t.Helper()
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil || strings.TrimSpace(string(pattern)) != "core" {
		return "", nil
	}
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "ulimit -c unlimited; LD_PRELOAD="+testkit.Library(t)+" exec "+holder(t)+" abort")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GRANARY_CONF="+options)
	h := start(t, cmd)
	cmd.Wait()
	found, _ := filepath.Glob(filepath.Join(dir, "core*"))
	if len(found) != 1 {
		return "", nil
	}
	return found[0], h.said
}

func checkCore(t *testing.T, path string, said map[string]uint64) {
	t.Helper()
	target, err := OpenCore(path)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	s := mustSnapshot(t, target)
	agree(t, s, said)
	mapAgrees(t, mustMap(t, target), s)
}

func TestACoreOfTheKernelIsReadLikeTheProcess(t *testing.T) {
	path, said := coreOf(t, quiet)
	if path == "" {
		t.Skip("the kernel writes no core files here (kernel.core_pattern is not \"core\")")
	}
	checkCore(t, path, said)
}

func TestACoreOfGdbIsReadLikeTheProcess(t *testing.T) {
	if _, err := exec.LookPath("gcore"); err != nil {
		t.Skip("gcore is not installed")
	}
	h := hold(t, "wait", quiet)
	path := filepath.Join(t.TempDir(), "core")
	if out, err := exec.Command("gcore", "-o", path, itoa(h.pid())).CombinedOutput(); err != nil {
		t.Fatalf("gcore: %v\n%s", err, out)
	}
	syscall.Kill(h.pid(), syscall.SIGKILL)
	checkCore(t, path+"."+itoa(h.pid()), h.said)
}

func TestWhatIsNoCoreIsRefused(t *testing.T) {
	for _, path := range []string{"/no/such/file", "/etc/passwd", "/proc/self/exe"} {
		if _, err := OpenCore(path); err == nil {
			t.Errorf("%s was taken for a core file", path)
		}
	}
}

// A double free, and a description that was overwritten, are named.
func TestDamageIsNamed(t *testing.T) {
	h := hold(t, "stop", quiet)
	waitForState(t, h.pid(), "T")
	target := mustOpen(t, h.pid())
	healthy := mustMap(t, target)
	slab := healthy.Slabs[len(healthy.Slabs)/2]
	w := &walker{t: target, l: target.layout, h: &HeapMap{Granule: healthy.Granule}, leaves: map[uint64]uint64{}}
	column, err := w.column("leaf.slabs", 8, healthy.Granule, slab.Address, slab.Address+healthy.Granule)
	if err != nil {
		t.Fatal(err)
	}
	description := binary.LittleEndian.Uint64(column)
	p := process{h.pid()}
	if err := p.write(description+target.layout.constant("slab.objects"), []byte{1, 0}); err != nil {
		t.Fatal(err)
	}
	damaged, err := target.HeapMap()
	if err != nil {
		t.Fatal(err)
	}
	if len(damaged.Damage) == 0 || !strings.Contains(damaged.Damage[0], "slab") {
		t.Errorf("an overwritten slab is not named: %q", damaged.Damage)
	}
}
