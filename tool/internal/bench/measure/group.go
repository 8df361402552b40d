package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// ErrNoGroup reports that this process cannot create a control group: it needs root or a delegated group,
// with the memory controller.
var ErrNoGroup = errors.New("no memory control group can be made here")

// A Group is a memory control group that this process created.
type Group struct {
	path    string
	version int
	highest float64  // the largest peak before a ResetPeak
	peak    *os.File // of version 2, after a ResetPeak: what it holds counts from then on
}

// GroupUsage is the memory charged to a group, in bytes.
type GroupUsage struct {
	Current, Peak float64
	Kernel        float64 // of Current: page tables, stacks, sockets and other memory of the kernel
}

var made atomic.Int64 // for their names

// MakeGroup creates a group below this process's own group, so that the limits of this process still
// apply.
func MakeGroup(proc procfs.FS) (*Group, error) {
	parent, version, err := proc.Group(os.Getpid(), "memory")
	if err != nil {
		return nil, ErrNoGroup
	}
	sweep(parent)
	g := &Group{path: filepath.Join(parent, fmt.Sprintf("granary-bench-%d-%d", os.Getpid(), made.Add(1))), version: version}
	if err := os.Mkdir(g.path, 0o755); err != nil {
		return nil, ErrNoGroup
	}
	if _, err := g.Read(); err != nil { // the controller is not handed on
		g.Remove()
		return nil, ErrNoGroup
	}
	return g, nil
}

// sweep removes groups that killed runs left behind.
func sweep(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, "granary-bench-*")) // well formed
	for _, path := range left {
		var pid, n int
		if _, err := fmt.Sscanf(filepath.Base(path), "granary-bench-%d-%d", &pid, &n); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.Remove(path) // one that still has processes stays
		}
	}
}

// Add moves a process into the group; its later children are born there.
func (g *Group) Add(pid int) error {
	if err := os.WriteFile(filepath.Join(g.path, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
		return fmt.Errorf("put process %d into its control group: %w", pid, err)
	}
	return nil
}

// Read returns the present memory usage of the group.
func (g *Group) Read() (GroupUsage, error) {
	current := "memory.current"
	if g.version == 1 {
		current = "memory.usage_in_bytes"
	}
	var u GroupUsage
	var err error
	if u.Current, err = g.number(current); err != nil {
		return u, err
	}
	u.Peak = max(g.highest, g.Peak())
	if g.version == 1 {
		u.Kernel, _ = g.number("memory.kmem.usage_in_bytes") // a kernel may be built without
		return u, err
	}
	stat, err := ReadTable(filepath.Join(g.path, "memory.stat"))
	u.Kernel = stat["kernel"]
	if u.Kernel == 0 { // before Linux 5.18
		u.Kernel = stat["slab"] + stat["pagetables"] + stat["kernel_stack"] + stat["sock"] + stat["percpu"]
	}
	return u, err
}

// Peak returns the largest memory usage of the group since its creation, or since ResetPeak. It is 0 where the kernel
// records none: version 2 has it since Linux 5.19.
func (g *Group) Peak() float64 {
	if g.peak != nil {
		var text [32]byte
		n, _ := g.peak.ReadAt(text[:], 0) // a file that ended is no number
		peak, _ := strconv.ParseFloat(strings.TrimSpace(string(text[:n])), 64)
		return peak
	}
	peak, _ := g.number(g.peakFile())
	return peak
}

func (g *Group) peakFile() string {
	if g.version == 1 {
		return "memory.max_usage_in_bytes"
	}
	return "memory.peak"
}

// ResetPeak lets Peak count from now on, and reports whether the kernel does so. In version 2, which allows it since
// Linux 6.12, the peak begins anew for the readers of one open file.
func (g *Group) ResetPeak() bool {
	before := g.Peak()
	file := g.peak
	if file == nil {
		var err error
		if file, err = os.OpenFile(filepath.Join(g.path, g.peakFile()), os.O_RDWR, 0); err != nil {
			return false
		}
	}
	if _, err := file.WriteAt([]byte("0\n"), 0); err != nil {
		file.Close()
		g.peak = nil
		return false
	}
	g.highest = max(g.highest, before)
	g.peak = file
	return true
}

func (g *Group) number(name string) (float64, error) {
	data, err := os.ReadFile(filepath.Join(g.path, name))
	if err != nil {
		return 0, fmt.Errorf("read the control group: %w", err)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(string(data)), 64)
	if err != nil {
		return 0, fmt.Errorf("read %s of the control group: %w", name, err)
	}
	return v, nil
}

// Remove removes the group after its processes have ended. It retries: the kernel notes their end after a
// short delay.
func (g *Group) Remove() {
	if g.peak != nil {
		g.peak.Close()
	}
	for range 100 {
		if err := os.Remove(g.path); !errors.Is(err, syscall.EBUSY) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// ReadTable reads a file in which each line is a name and a number.
func ReadTable(path string) (map[string]float64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the control group: %w", err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			out[name] = v
		}
	}
	return out, nil
}

// Throttled returns for how many seconds in total a CPU limit has stopped the threads of this process's
// group. It returns 0 without a limit.
func Throttled(proc procfs.FS) float64 {
	path, version, err := proc.Group(os.Getpid(), "cpu")
	if err != nil {
		return 0
	}
	stat, err := ReadTable(filepath.Join(path, "cpu.stat"))
	switch {
	case err != nil:
		return 0
	case version == 1:
		return stat["throttled_time"] / 1e9
	}
	return stat["throttled_usec"] / 1e6
}
