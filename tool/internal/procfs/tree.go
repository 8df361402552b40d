package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Resident returns the resident size of a process in bytes by statm: within a few pages of the exact
// value, and fast enough to be read ten times a second.
func (fs FS) Resident(pid int) (uint64, error) {
	text, err := fs.read(pid, "statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm of process %d has %d fields, expected 7", pid, len(fields))
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("statm of process %d: %w", pid, err)
	}
	return pages * uint64(os.Getpagesize()), nil
}

// Tree is pid and its descendants, as far as they can be read. A process that ends meanwhile is left
// out.
func (fs FS) Tree(pid int) []int {
	pids := []int{pid}
	for i := 0; i < len(pids); i++ {
		lists, _ := filepath.Glob(fs.Path(pids[i], "task/*/children")) // the pattern is well formed
		for _, list := range lists {
			text, _ := os.ReadFile(list) // a thread may have ended since
			for _, word := range strings.Fields(string(text)) {
				if child, err := strconv.Atoi(word); err == nil {
					pids = append(pids, child)
				}
			}
		}
	}
	return pids
}

// Ticks are the CPU seconds of the whole machine since it started.
type Ticks struct{ Busy, Stolen float64 }

// Machine reads the first line of /proc/stat. Busy is all but idle and stolen time.
func (fs FS) Machine() (Ticks, error) {
	data, err := os.ReadFile(filepath.Join(fs.Root, "stat"))
	if err != nil {
		return Ticks{}, fmt.Errorf("read the machine's CPU time: %w", err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return Ticks{}, fmt.Errorf("the first line of %s/stat is %q, not the CPU time of the machine", fs.Root, line)
	}
	at := func(i int) float64 { v, _ := strconv.ParseFloat(fields[i], 64); return v / ticksPerSecond }
	// user nice system idle iowait irq softirq steal
	return Ticks{Busy: at(1) + at(2) + at(3) + at(6) + at(7), Stolen: at(8)}, nil
}
