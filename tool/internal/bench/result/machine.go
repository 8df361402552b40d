package result

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes the machine on which results were measured.
type Machine struct {
	CPU          string `json:"cpu"`
	CPUs         int    `json:"cpus"`
	MemoryBytes  uint64 `json:"memory_bytes"`
	Kernel       string `json:"kernel"`
	Architecture string `json:"architecture"`
	System       string `json:"system"`
	HugePages    string `json:"transparent_huge_pages"`
	Governor     string `json:"governor,omitempty"`
	LoadBefore   string `json:"load_before"`
	// Limits of this process's control group; empty without a limit.
	MemoryLimit string `json:"memory_limit,omitempty"`
	CPULimit    string `json:"cpu_limit,omitempty"`
}

// Facts reads the machine's files under root, which is "/" on a live machine. A field whose file is
// missing stays empty.
func Facts(root string) Machine {
	read := func(path string) string {
		data, _ := os.ReadFile(filepath.Join(root, path))
		return strings.TrimSpace(string(data))
	}
	m := Machine{
		CPU:          field(read("proc/cpuinfo"), "model name", ":"),
		CPUs:         runtime.NumCPU(),
		Kernel:       read("proc/sys/kernel/osrelease"),
		Architecture: runtime.GOARCH,
		System:       strings.Trim(field(read("etc/os-release"), "PRETTY_NAME", "="), `"`),
		HugePages:    chosen(read("sys/kernel/mm/transparent_hugepage/enabled")),
		Governor:     read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
		LoadBefore:   read("proc/loadavg"),
	}
	m.MemoryLimit, m.CPULimit = limits(read)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.MemoryBytes = info.Totalram * uint64(info.Unit)
	}
	return m
}

func field(text, name, separator string) string {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, separator)
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// LoadAverages is LoadBefore in words. The line of /proc/loadavg goes on with numbers of processes, which say nothing here.
func (m Machine) LoadAverages() string {
	averages := strings.Fields(m.LoadBefore)
	if len(averages) < 3 {
		return "unknown"
	}
	return fmt.Sprintf("%s over 1 minute, %s over 5, %s over 15", averages[0], averages[1], averages[2])
}

// chosen is the bracketed word of a line such as "always [madvise] never".
func chosen(line string) string {
	_, rest, _ := strings.Cut(line, "[")
	word, _, _ := strings.Cut(rest, "]")
	return word
}

// limits are those of this process's control groups, of version 2 or 1. In a container the path of the
// group often does not exist; there the root of the tree is its group.
func limits(read func(string) string) (memory, cpu string) {
	groups := read("proc/self/cgroup")
	limit := func(mount, controller, name string) string {
		own := read(filepath.Join("sys/fs/cgroup", mount, groupOf(groups, controller), name))
		if own == "" {
			own = read(filepath.Join("sys/fs/cgroup", mount, name))
		}
		return own
	}
	memory, cpu = unlimited(limit("", "", "memory.max")), unlimited(limit("", "", "cpu.max"))
	if memory == "" {
		memory = unlimited(limit("memory", "memory", "memory.limit_in_bytes"))
	}
	if quota := limit("cpu", "cpu", "cpu.cfs_quota_us"); cpu == "" && quota != "" && !strings.HasPrefix(quota, "-") {
		cpu = quota + " " + limit("cpu", "cpu", "cpu.cfs_period_us")
	}
	return memory, cpu
}

// groupOf is the path of the group of a controller in /proc/self/cgroup; no controller is version 2: "0::/user.slice".
func groupOf(text, controller string) string {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), controller) {
			return fields[2]
		}
	}
	return "/"
}

// unlimited returns an empty text for a value that means no limit: "max", and in version 1 the largest
// 64-bit number of whole pages.
func unlimited(text string) string {
	if strings.HasPrefix(text, "max") {
		return ""
	}
	if v, err := strconv.ParseUint(text, 10, 64); err == nil && v > 1<<60 {
		return ""
	}
	return text
}
