// Package procfs reads what the kernel publishes about processes: memory, mappings, control groups and
// process trees. The root of /proc is a parameter, so tests read recorded files.
package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is USER_HZ, which Linux fixes at 100 for every architecture Go runs on.
const ticksPerSecond = 100

// FS is a proc file system; Root is "/proc" on a live machine.
type FS struct{ Root string }

// Live is the proc file system of this machine.
func Live() FS { return FS{Root: "/proc"} }

// Stat is the part of /proc/PID/stat that a measurement needs.
type Stat struct {
	Command     string // as in Comm
	State       string
	Parent      int
	UserSeconds float64
	SysSeconds  float64
	MinorFaults uint64
	MajorFaults uint64
	Threads     int
	StartTicks  uint64 // when it started, in ticks since boot: tells it from an earlier one of the same PID
	// ReapedSeconds is the CPU time of children that ended and were waited for.
	ReapedSeconds float64
}

// Ended is true for a process that waits for its parent to take note of its end.
func (s Stat) Ended() bool { return s.State == "Z" || s.State == "X" }

// CPUSeconds is user and system time together.
func (s Stat) CPUSeconds() float64 { return s.UserSeconds + s.SysSeconds }

// Memory is what a process occupies, in bytes.
type Memory struct {
	RSS       uint64
	PSS       uint64
	Anonymous uint64
	HugePages uint64
	Peak      uint64
}

// Mapping is one line of /proc/PID/maps.
type Mapping struct {
	Start, End, Offset uint64
	Perms              string
	Path               string
}

// Path is a file of process pid.
func (fs FS) Path(pid int, name string) string {
	return filepath.Join(fs.Root, strconv.Itoa(pid), name)
}

func (fs FS) read(pid int, name string) (string, error) {
	data, err := os.ReadFile(fs.Path(pid, name))
	if err != nil {
		return "", fmt.Errorf("read %s of process %d: %w", name, pid, err)
	}
	return string(data), nil
}

// Stat reads /proc/PID/stat.
func (fs FS) Stat(pid int) (Stat, error) {
	text, err := fs.read(pid, "stat")
	if err != nil {
		return Stat{}, err
	}
	// The name in parentheses may hold spaces and parentheses itself; fields count from the last one.
	begin, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if begin < 0 || end < begin {
		return Stat{}, fmt.Errorf("stat of process %d has no program name", pid)
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 20 {
		return Stat{}, fmt.Errorf("stat of process %d has %d fields after the name, expected 20 or more", pid, len(fields))
	}
	n := func(i int) uint64 { v, _ := strconv.ParseUint(fields[i], 10, 64); return v }
	return Stat{
		Command:     text[begin+1 : end],
		State:       fields[0],
		Parent:      int(n(1)),
		MinorFaults: n(7),
		MajorFaults: n(9),
		UserSeconds: float64(n(11)) / ticksPerSecond,
		SysSeconds:  float64(n(12)) / ticksPerSecond,
		Threads:     int(n(17)),
		StartTicks:  n(19),

		ReapedSeconds: float64(n(13)+n(14)) / ticksPerSecond,
	}, nil
}

// Memory reads smaps_rollup for the present and status for the peak. Where smaps_rollup is missing
// (old kernels) the resident size comes from status alone.
func (fs FS) Memory(pid int) (Memory, error) {
	status, err := fs.read(pid, "status")
	if err != nil {
		return Memory{}, err
	}
	fields := sizes(status)
	mem := Memory{RSS: fields["VmRSS"], Peak: fields["VmHWM"]}
	rollup, err := fs.read(pid, "smaps_rollup")
	if err != nil {
		return mem, nil
	}
	fields = sizes(rollup)
	mem.RSS, mem.PSS = fields["Rss"], fields["Pss"]
	mem.Anonymous, mem.HugePages = fields["Anonymous"], fields["AnonHugePages"]
	return mem, nil
}

// BootTime is when the machine started, to the second: ticks of Stat.StartTicks are since then.
func (fs FS) BootTime() (time.Time, error) {
	data, err := os.ReadFile(filepath.Join(fs.Root, "stat"))
	if err != nil {
		return time.Time{}, fmt.Errorf("find the time of the boot: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "btime "); ok {
			seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return time.Unix(seconds, 0), err
		}
	}
	return time.Time{}, fmt.Errorf("%s/stat does not tell the time of the boot", fs.Root)
}

// StartedAt is the time so many ticks after the boot.
func StartedAt(boot time.Time, ticks uint64) time.Time {
	return boot.Add(time.Duration(ticks) * (time.Second / ticksPerSecond))
}

// ResetPeak lets the kernel's peak of the resident size (Memory.Peak) count from now on.
func (fs FS) ResetPeak(pid int) error {
	const resetPeak = "5" // as proc(5) says
	return os.WriteFile(fs.Path(pid, "clear_refs"), []byte(resetPeak), 0)
}

// sizes collects the lines "Name:   123 kB" as bytes.
func sizes(text string) map[string]uint64 {
	out := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if !ok || len(fields) != 2 || fields[1] != "kB" {
			continue
		}
		if kb, err := strconv.ParseUint(fields[0], 10, 64); err == nil {
			out[name] = kb << 10
		}
	}
	return out
}

// Maps reads /proc/PID/maps.
func (fs FS) Maps(pid int) ([]Mapping, error) {
	text, err := fs.read(pid, "maps")
	if err != nil {
		return nil, err
	}
	var out []Mapping
	for line := range strings.Lines(text) {
		if m, ok := ParseMapping(strings.TrimSuffix(line, "\n")); ok {
			out = append(out, m)
		}
	}
	return out, nil
}

// ParseMapping parses a line of /proc/PID/maps; false if it is none.
func ParseMapping(line string) (Mapping, bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return Mapping{}, false
	}
	from, to, ok := strings.Cut(fields[0], "-")
	if !ok {
		return Mapping{}, false
	}
	m := Mapping{Perms: fields[1]}
	var errs [3]error
	m.Start, errs[0] = strconv.ParseUint(from, 16, 64)
	m.End, errs[1] = strconv.ParseUint(to, 16, 64)
	m.Offset, errs[2] = strconv.ParseUint(fields[2], 16, 64)
	if len(fields) > 5 {
		m.Path = line[strings.Index(line, fields[5]):] // a path may hold spaces
	}
	return m, errs == [3]error{}
}

// Holding finds the mapping that contains address.
func Holding(maps []Mapping, address uint64) (Mapping, bool) {
	for _, m := range maps {
		if m.Start <= address && address < m.End {
			return m, true
		}
	}
	return Mapping{}, false
}
