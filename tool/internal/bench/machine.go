package bench

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is what a reader of results must know about where they come from.
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
	// Limits of this process's control group; empty where there are none.
	MemoryLimit string `json:"memory_limit,omitempty"`
	CPULimit    string `json:"cpu_limit,omitempty"`
}

// Facts reads the machine's files under root, which is "/" on a live machine. What is missing stays
// empty.
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
	group := filepath.Join("sys/fs/cgroup", ownGroup(read("proc/self/cgroup")))
	m.MemoryLimit, m.CPULimit = limit(read(filepath.Join(group, "memory.max"))), limit(read(filepath.Join(group, "cpu.max")))
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

// chosen is the bracketed word of a line such as "always [madvise] never".
func chosen(line string) string {
	_, rest, _ := strings.Cut(line, "[")
	word, _, _ := strings.Cut(rest, "]")
	return word
}

// ownGroup is the path of version 2 in /proc/self/cgroup: "0::/user.slice".
func ownGroup(text string) string {
	for line := range strings.Lines(text) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	return "/"
}

// limit is a setting of a control group, unless it is "max".
func limit(text string) string {
	if strings.HasPrefix(text, "max") {
		return ""
	}
	return text
}
