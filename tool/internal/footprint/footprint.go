// Package footprint says what the resident memory of a process consists of, as far as the kernel
// knows it: stacks, code, data, files, shared memory, and anonymous memory, which is where heaps lie.
package footprint

import (
	"strings"

	"granary/tool/internal/procfs"
)

// Kind is what a mapping is used for.
type Kind int

// The kinds of mappings. Heap is the program break ([heap]); Anonymous is every other anonymous
// mapping that is not a stack: most heaps, and whatever the program maps itself.
const (
	Anonymous Kind = iota
	Heap
	Stacks
	Code
	Data
	Files
	Shared
	Kernel
	kinds
)

// Kinds are all kinds in the order they are reported.
func Kinds() []Kind { return []Kind{Heap, Anonymous, Stacks, Code, Data, Files, Shared, Kernel} }

var names = [kinds]string{"anonymous mappings", "program break", "stacks", "code", "static data", "files", "shared memory", "kernel"}

func (k Kind) String() string { return names[k] }

// A Region is a mapping with its kind.
type Region struct {
	procfs.Region
	Kind Kind
}

// Guards of thread stacks are a page by default; those of other makers, up to this.
const largestGuard = 1 << 20

// Read classifies the mappings of a process.
func Read(proc procfs.FS, pid int) ([]Region, error) {
	regions, err := proc.Smaps(pid)
	if err != nil {
		return nil, err
	}
	return Classify(regions), nil
}

// Classify gives each region, in the order of addresses, its kind.
func Classify(regions []procfs.Region) []Region {
	out := make([]Region, len(regions))
	for i, r := range regions {
		out[i] = Region{Region: r, Kind: kindOf(r)}
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

func kindOf(r procfs.Region) Kind {
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

func isGuard(r procfs.Region) bool {
	return strings.HasPrefix(r.Perms, "---") && r.Path == "" && r.End-r.Start <= largestGuard
}

// Sum is the resident bytes of each kind.
func Sum(regions []Region) map[Kind]uint64 {
	out := map[Kind]uint64{}
	for _, r := range regions {
		out[r.Kind] += r.RSS
	}
	return out
}

// RSS is the resident bytes of all regions.
func RSS(regions []Region) (bytes uint64) {
	for _, r := range regions {
		bytes += r.RSS
	}
	return bytes
}
