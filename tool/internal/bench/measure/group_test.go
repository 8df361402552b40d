package measure

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// machine is a proc file system in which the cgroup of this process is group, with the kernel's files.
func machine(t *testing.T, version int, group string, files map[string]string) procfs.FS {
	t.Helper()
	root := t.TempDir()
	top := filepath.Join(root, "cgroup")
	own := filepath.Join(root, "proc", fmt.Sprint(os.Getpid()))
	membership, mount := "0::/"+group+"\n", "31 24 0:27 / "+top+" rw - cgroup2 cgroup2 rw\n"
	if version == 1 {
		membership, mount = "4:memory:/"+group+"\n3:cpu,cpuacct:/"+group+"\n0::/\n", "31 24 0:27 / "+top+" rw - cgroup cgroup rw,memory,cpu\n"
	}
	err := errors.Join(os.MkdirAll(own, 0o755), os.MkdirAll(filepath.Join(top, group), 0o755),
		os.WriteFile(filepath.Join(own, "cgroup"), []byte(membership), 0o644), os.WriteFile(filepath.Join(own, "mountinfo"), []byte(mount), 0o644))
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(top, group, name), []byte(text), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	return procfs.FS{Root: filepath.Join(root, "proc")}
}

func TestFiguresOfBothVersions(t *testing.T) {
	for _, c := range []struct {
		version int
		files   map[string]string
		want    GroupUsage
	}{
		{2, map[string]string{"memory.current": "3000\n", "memory.peak": "5000\n", "memory.stat": "anon 1000\nkernel 700\n"}, GroupUsage{3000, 5000, 700}},
		{2, map[string]string{"memory.current": "3000\n", "memory.stat": "slab 10\npagetables 20\nkernel_stack 30\nsock 40\n"}, GroupUsage{3000, 0, 100}},
		{1, map[string]string{"memory.usage_in_bytes": "3000\n", "memory.max_usage_in_bytes": "5000\n", "memory.kmem.usage_in_bytes": "70\n"}, GroupUsage{3000, 5000, 70}},
	} {
		proc := machine(t, c.version, "a/b", c.files)
		path, version, err := proc.Group(os.Getpid(), "memory")
		if err != nil || version != c.version {
			t.Fatal(version, err)
		}
		if got, err := (&Group{path: path, version: version}).Read(); err != nil || got != c.want {
			t.Errorf("version %d: %+v, %v", c.version, got, err)
		}
	}
}

// A file stands for the kernel's: what is written into it after the reset is the peak from then on.
func TestAPeakBeginsAnewAndTheWholePeakIsKept(t *testing.T) {
	for version, name := range map[int]string{1: "memory.max_usage_in_bytes", 2: "memory.peak"} {
		proc := machine(t, version, "x", map[string]string{"memory.usage_in_bytes": "10\n", "memory.current": "10\n", "memory.stat": "", name: "5000\n"})
		path, _, err := proc.Group(os.Getpid(), "memory")
		g := &Group{path: path, version: version}
		if err != nil || !g.ResetPeak() {
			t.Fatalf("version %d: not reset, %v", version, err)
		}
		if err := os.WriteFile(filepath.Join(path, name), []byte("700\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if used, err := g.Read(); err != nil || g.Peak() != 700 || used.Peak != 5000 {
			t.Errorf("version %d: peak %.0f, of the whole run %.0f, %v", version, g.Peak(), used.Peak, err)
		}
	}
	if (&Group{path: t.TempDir(), version: 2}).ResetPeak() {
		t.Error("a kernel without the peak has one")
	}
}

// The kernel's own accounting: 40 MiB that a process held before the reset are not in the peak after it.
func TestTheKernelsPeakBeginsAnew(t *testing.T) {
	g, err := MakeGroup(procfs.Live())
	if err != nil {
		t.Skip("no memory control group can be made here")
	}
	defer g.Remove()
	cmd := exec.Command("/bin/sh", "-c", "read go; head -c 41943040 /dev/zero | tail -c 41943040 >/dev/null; echo; read go")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start(), g.Add(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	_, err1 = in.Write([]byte("\n"))
	_, err2 = out.Read(make([]byte, 1))
	before := g.Peak()
	reset := g.ResetPeak()
	after := g.Peak()
	_, err3 := in.Write([]byte("\n"))
	if err := errors.Join(err1, err2, err3, cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	if before < 40<<20 {
		t.Errorf("peak %.1f MiB of 40", before/(1<<20))
	}
	if reset && after > 20<<20 {
		t.Errorf("peak after the reset %.1f MiB", after/(1<<20))
	}
	if used, err := g.Read(); err != nil || used.Peak < before {
		t.Errorf("the whole peak %.1f MiB, %v", used.Peak/(1<<20), err)
	}
}

func TestThrottlingOfBothVersions(t *testing.T) {
	for version, text := range map[int]string{1: "nr_throttled 3\nthrottled_time 1500000000\n", 2: "usage_usec 9\nthrottled_usec 1500000\n"} {
		if got := Throttled(machine(t, version, "x", map[string]string{"cpu.stat": text})); got != 1.5 {
			t.Errorf("version %d: %v s", version, got)
		}
	}
	if got := Throttled(procfs.FS{Root: t.TempDir()}); got != 0 {
		t.Errorf("without groups: %v s", got)
	}
}

func TestWhereNoGroupCanBeMadeThatIsReportedAndNothingIsLeft(t *testing.T) {
	proc := machine(t, 2, "x", nil) // a new folder there has no memory.current
	if _, err := MakeGroup(proc); !errors.Is(err, ErrNoGroup) {
		t.Errorf("err = %v", err)
	}
	path, _, _ := proc.Group(os.Getpid(), "memory")
	if left, _ := filepath.Glob(path + "/granary-bench-*"); left != nil {
		t.Errorf("left: %q", left)
	}
}

func TestWhatAKilledRunLeftIsRemovedAndWhatALivingOneHasIsNot(t *testing.T) {
	dir := t.TempDir()
	gone := exec.Command("/bin/true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dead, alive := filepath.Join(dir, fmt.Sprintf("granary-bench-%d-1", gone.Process.Pid)), filepath.Join(dir, fmt.Sprintf("granary-bench-%d-1", os.Getpid()))
	if err := errors.Join(os.Mkdir(dead, 0o755), os.Mkdir(alive, 0o755)); err != nil {
		t.Fatal(err)
	}
	sweep(dir)
	if left, _ := filepath.Glob(dir + "/*"); len(left) != 1 || left[0] != alive {
		t.Errorf("left: %q", left)
	}
}

func TestARealGroupHoldsWhatItsProcessUses(t *testing.T) {
	g, err := MakeGroup(procfs.Live())
	if errors.Is(err, ErrNoGroup) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	// The shell waits for a line, so that it is in the cgroup before it executes the program that uses memory.
	cmd := exec.Command("/bin/sh", "-c", "read go; exec /usr/bin/python3 -c 'import sys; kept = bytearray(64 << 20); print(1, flush=True); sys.stdin.read()'")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start(), g.Add(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, "go")
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	used, err := g.Read()
	if err != nil || used.Current < 64<<20 || used.Peak < used.Current-(1<<20) && used.Peak != 0 || used.Kernel > used.Current {
		t.Errorf("%+v, %v", used, err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	g.Remove()
	for range 100 {
		if _, err := os.Stat(g.path); os.IsNotExist(err) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s is left", g.path)
}
