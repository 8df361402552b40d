package procfs

import (
	"strings"
)

// MemoryKind is what a mapping is used for.
type MemoryKind int

// The kinds of mappings. Heap is the program break ([heap]); Anonymous is every other anonymous
// mapping that is not a stack: most heaps, and whatever the program maps itself.
const (
	Anonymous MemoryKind = iota
	Heap
	Stacks
	Code
	Data
	Files
	Shared
	Kernel
	memoryKinds
)

// MemoryKinds are all kinds in the order they are reported.
func MemoryKinds() []MemoryKind {
	return []MemoryKind{Heap, Anonymous, Stacks, Code, Data, Files, Shared, Kernel}
}

var memoryKindNames = [memoryKinds]string{"anonymous mappings", "program break", "stacks", "code", "static data", "files", "shared memory", "kernel"}

func (k MemoryKind) String() string { return memoryKindNames[k] }

// A FootprintRegion is a mapping with its kind.
type FootprintRegion struct {
	Region
	Kind MemoryKind
}

// Guards of thread stacks are a page by default; those of other makers, up to this.
const largestGuard = 1 << 20

// Footprint classifies the mappings of a process: stacks, code, data, files, shared memory, and anonymous
// memory, which contains the heaps.
func Footprint(proc FS, pid int) ([]FootprintRegion, error) {
	regions, err := proc.Smaps(pid)
	if err != nil {
		return nil, err
	}
	return Classify(regions), nil
}

// Classify gives each region, in the order of addresses, its kind.
func Classify(regions []Region) []FootprintRegion {
	out := make([]FootprintRegion, len(regions))
	for i, r := range regions {
		out[i] = FootprintRegion{Region: r, Kind: kindOf(r)}
		if i == 0 || out[i].Kind != Anonymous {
			continue
		}
		before := out[i-1]
		switch {
		case before.End != r.Start || !strings.HasPrefix(r.Perms, "rw"):
		case isGuard(before.Region):
			out[i].Kind = Stacks
		case before.Kind == Data && before.Path != "":
			out[i].Kind = Data // the zero-initialised rest of a file's data
		}
	}
	return out
}

func kindOf(r Region) MemoryKind {
	path := r.Path
	switch {
	case strings.HasPrefix(path, "[stack") || strings.Contains(path, "pthread stack"):
		return Stacks
	case path == "[heap]":
		return Heap
	case path == "" || strings.HasPrefix(path, "[anon:"):
		return Anonymous
	case strings.HasPrefix(path, "["):
		return Kernel // vdso, vvar, vsyscall
	case strings.HasPrefix(path, "/dev/shm/") || strings.HasPrefix(path, "/memfd:") || strings.HasPrefix(path, "/SYSV") || strings.HasPrefix(path, "/dev/zero"):
		return Shared
	case strings.HasPrefix(r.Perms[3:], "s"):
		return Files
	case strings.HasPrefix(r.Perms, "rw"):
		return Data
	case strings.Contains(r.Perms, "x") || r.Anonymous > 0 || isObject(path):
		return Code
	}
	return Files
}

// isObject is true for what a loader maps: its read-only parts belong to the code.
func isObject(path string) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	return strings.HasSuffix(base, ".so") || strings.Contains(base, ".so.") || !strings.Contains(base, ".")
}

func isGuard(r Region) bool {
	return strings.HasPrefix(r.Perms, "---") && r.Path == "" && r.End-r.Start <= largestGuard
}

// SumByKind is the resident bytes of each kind.
func SumByKind(regions []FootprintRegion) map[MemoryKind]uint64 {
	out := map[MemoryKind]uint64{}
	for _, r := range regions {
		out[r.Kind] += r.RSS
	}
	return out
}

// TotalRSS is the resident bytes of all regions.
func TotalRSS(regions []FootprintRegion) (bytes uint64) {
	for _, r := range regions {
		bytes += r.RSS
	}
	return bytes
}
