package inspect

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// A process that has lived for a while leaves a core file that needs no other file: not even that of
// the library, which may have been replaced since.
func TestACoreOutlivesItsLibrary(t *testing.T) {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil || string(pattern) != "core\n" {
		t.Skip("the kernel writes no core files here (kernel.core_pattern is not \"core\")")
	}
	dir := t.TempDir()
	copied := filepath.Join(dir, "libgranary.so")
	data, err := os.ReadFile(testkit.Library(t))
	if err == nil {
		err = os.WriteFile(copied, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "ulimit -c unlimited; LD_PRELOAD="+copied+" exec "+holder(t)+" helper")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GRANARY_CONF=dirty_decay_ms:20")
	h := start(t, cmd)
	target := mustOpen(t, h.pid())
	// Until the background thread has nothing left to purge: memory in transit counts as used.
	last := uint64(0)
	for range 200 {
		s := mustSnapshot(t, target)
		windows, _ := s.Value("decay_intervals")
		released, _ := s.Value("released")
		if windows >= 3 && released == last {
			break
		}
		last = released
		time.Sleep(200 * time.Millisecond)
	}
	syscall.Kill(h.pid(), syscall.SIGSTOP) // or the background thread continues to empty slabs
	before := mustSnapshot(t, target)
	if err := os.Remove(copied); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(h.pid(), syscall.SIGABRT)
	syscall.Kill(h.pid(), syscall.SIGCONT)
	cmd.Wait()
	cores, _ := filepath.Glob(filepath.Join(dir, "core*"))
	if len(cores) != 1 {
		t.Skip("no core file was written")
	}
	dead, err := OpenCore(cores[0])
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	s := mustSnapshot(t, dead)
	for _, name := range []string{"live", "allocations", "used_spans", "large"} {
		was, _ := before.Value(name)
		if is, ok := s.Value(name); !ok || is != was {
			t.Errorf("%s was %d, the core file says %d", name, was, is)
		}
	}
	mapAgrees(t, mustMap(t, dead), s)
	info, err := os.Stat(cores[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []int64{info.Size() / 2, info.Size() / 20, 4096, 64} {
		if err := os.Truncate(cores[0], left); err != nil {
			t.Fatal(err)
		}
		cut, err := OpenCore(cores[0])
		if err == nil {
			_, err = cut.Snapshot()
			cut.Close()
		}
		if !errors.Is(err, ErrDamaged) || left > 4096 && !strings.Contains(err.Error(), "is cut off, the last") {
			t.Errorf("of %d bytes of %d it is said: %v", left, info.Size(), err)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	h := hold(b, "wait", quiet)
	target, err := Open(h.pid())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := target.Snapshot(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHeapMap(b *testing.B) {
	h := hold(b, "wait", quiet)
	target, err := Open(h.pid())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := target.HeapMap(); err != nil {
			b.Fatal(err)
		}
	}
}
