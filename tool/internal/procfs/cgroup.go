package procfs

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Unlimited is the limit of a group that has none.
const Unlimited = math.MaxUint64

// A Cgroup is the memory control group that bounds a process tightest, in bytes.
type Cgroup struct {
	Path    string // its folder
	Version int    // 1 or 2
	Max     uint64 // beyond it the kernel kills; Unlimited if there is no limit
	High    uint64 // beyond it the kernel slows the group down; Unlimited in version 1
	Current uint64 // what the group uses
}

// ErrNoCgroup says that the process has no memory control group that this command can read.
var ErrNoCgroup = errors.New("no memory control group is visible")

// Cgroup finds, of the memory control groups around a process, the one with the lowest limit. Where
// none has a limit it is the innermost.
func (fs FS) Cgroup(pid int) (Cgroup, error) {
	membership, err := fs.read(pid, "cgroup")
	if err != nil {
		return Cgroup{}, err
	}
	mounts, err := fs.read(pid, "mountinfo")
	if err != nil {
		return Cgroup{}, err
	}
	for line := range strings.Lines(membership) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		v2 := fields[0] == "0" && fields[1] == ""
		if !v2 && !hasWord(fields[1], "memory") {
			continue
		}
		if mount, root, ok := cgroupMount(mounts, v2); ok {
			if g, ok := tightest(mount, strings.TrimPrefix(fields[2], root), v2); ok {
				return g, nil
			}
		}
	}
	return Cgroup{}, ErrNoCgroup
}

// Group finds the innermost control group of a process that has a controller ("memory", "cpu"): its folder, and
// 1 or 2 for the version.
func (fs FS) Group(pid int, controller string) (path string, version int, err error) {
	membership, err := fs.read(pid, "cgroup")
	if err != nil {
		return "", 0, err
	}
	mounts, err := fs.read(pid, "mountinfo")
	if err != nil {
		return "", 0, err
	}
	for line := range strings.Lines(membership) { // version 2 is last
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		v2 := fields[0] == "0" && fields[1] == ""
		if !v2 && !hasWord(fields[1], controller) {
			continue
		}
		mount, root, ok := controllerMount(mounts, v2, controller)
		path := filepath.Join(mount, strings.TrimPrefix(fields[2], root))
		if _, err := os.Stat(path); !ok || err != nil {
			continue
		}
		if v2 {
			return path, 2, nil
		}
		return path, 1, nil
	}
	return "", 0, ErrNoCgroup
}

func hasWord(list, word string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if item == word {
			return true
		}
	}
	return false
}

// cgroupMount finds where the hierarchy is mounted, and which of its folders is the top there.
func cgroupMount(mounts string, v2 bool) (mount, root string, ok bool) {
	return controllerMount(mounts, v2, "memory")
}

func controllerMount(mounts string, v2 bool, controller string) (mount, root string, ok bool) {
	for line := range strings.Lines(mounts) {
		left, right, found := strings.Cut(line, " - ")
		before, after := strings.Fields(left), strings.Fields(right)
		if !found || len(before) < 5 || len(after) < 3 {
			continue
		}
		if v2 && after[0] == "cgroup2" || !v2 && after[0] == "cgroup" && hasWord(after[2], controller) {
			return before[4], strings.TrimSuffix(before[3], "/"), true
		}
	}
	return "", "", false
}

// tightest walks from the group of the process to the top.
func tightest(mount, group string, v2 bool) (Cgroup, bool) {
	var best Cgroup
	found := false
	for path := filepath.Join(mount, group); strings.HasPrefix(path, mount); path = filepath.Dir(path) {
		g, ok := readGroup(path, v2)
		if ok && (!found || min(g.Max, g.High) < min(best.Max, best.High)) {
			best, found = g, true
		}
		if path == "/" {
			break
		}
	}
	return best, found
}

func readGroup(path string, v2 bool) (Cgroup, bool) {
	g := Cgroup{Path: path, Version: 1, Max: Unlimited, High: Unlimited}
	limit, current := "memory.limit_in_bytes", "memory.usage_in_bytes"
	if v2 {
		g.Version, limit, current = 2, "memory.max", "memory.current"
		if high, ok := groupValue(path, "memory.high"); ok {
			g.High = high
		}
	}
	var ok bool
	if g.Current, ok = groupValue(path, current); !ok {
		return g, false // the top of version 2 has no such file
	}
	if g.Max, ok = groupValue(path, limit); !ok {
		g.Max = Unlimited
	}
	return g, true
}

// groupValue reads a number; "max", and what version 1 writes for no limit, is Unlimited.
func groupValue(path, name string) (uint64, bool) {
	data, err := os.ReadFile(filepath.Join(path, name))
	if err != nil {
		return 0, false
	}
	text := strings.TrimSpace(string(data))
	if text == "max" {
		return Unlimited, true
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err == nil && n > 1<<60 {
		n = Unlimited
	}
	return n, err == nil
}

// A Limit is a resource limit of a process; Unlimited if there is none.
type Limit struct{ Soft, Hard uint64 }

// Limits reads /proc/PID/limits by name, such as "Max address space".
func (fs FS) Limits(pid int) (map[string]Limit, error) {
	text, err := fs.read(pid, "limits")
	if err != nil {
		return nil, err
	}
	out := map[string]Limit{}
	for line := range strings.Lines(text) {
		if len(line) < 48 || !strings.HasPrefix(line, "Max ") {
			continue
		}
		fields := strings.Fields(line[26:])
		if len(fields) < 2 {
			continue
		}
		out[strings.TrimSpace(line[:26])] = Limit{limitValue(fields[0]), limitValue(fields[1])}
	}
	return out, nil
}

func limitValue(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return Unlimited
	}
	return n
}
