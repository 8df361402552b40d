package symbol

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/procfs"

	"github.com/google/pprof/profile"
)

// A JITMap are functions by address.
type JITMap []function

// ParseJITMap reads a map for perf: a line a function, "START SIZE NAME" in hexadecimal. Later lines
// take the place of earlier ones, as compilers use memory again.
func ParseJITMap(text string) JITMap {
	var m JITMap
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimRight(line, "\n"), " ", 3)
		if len(fields) != 3 {
			continue
		}
		start, err := strconv.ParseUint(strings.TrimPrefix(fields[0], "0x"), 16, 64)
		size, sizeErr := strconv.ParseUint(strings.TrimPrefix(fields[1], "0x"), 16, 64)
		if err == nil && sizeErr == nil && size > 0 && start+size > start {
			m = append(m, function{start, start + size, fields[2]})
		}
	}
	slices.SortStableFunc(m, func(a, b function) int { return cmp.Compare(a.start, b.start) })
	return m
}

func (m JITMap) frames(address uint64) []Frame {
	i, _ := slices.BinarySearchFunc(m, address, func(f function, a uint64) int { return cmp.Compare(f.start, a+1) })
	if i == 0 || address >= m[i-1].end {
		return nil
	}
	name, file := m[i-1].name, ""
	if python, ok := strings.CutPrefix(name, "py::"); ok { // "py::function:file"
		if at := strings.IndexByte(python, ':'); at > 0 {
			name, file = python[:at], python[at+1:]
		}
	}
	return []Frame{{Function: Demangle(name), Linkage: name, File: file}}
}

// OfProcess makes f read the files of process pid, even if they were deleted or are in a container, and
// the map of its just-in-time compiler.
func (f *Finder) OfProcess(proc procfs.FS, pid int) {
	f.Open = func(m *profile.Mapping) (*os.File, error) {
		file, err := openFile(proc.Path(pid, fmt.Sprintf("map_files/%x-%x", m.Start, m.Limit)))
		if err == nil {
			return file, nil
		}
		file, err = openFile(filepath.Join(proc.Path(pid, "root"), m.File))
		if err != nil && m.BuildID != "" && !proc.Alive(pid) { // it has ended; the build id tells whether this is the same file
			return openFile(m.File)
		}
		return file, err
	}
	inside := proc.NumberInside(pid) // where it writes
	f.Jitted = readJITMap(filepath.Join(proc.Path(pid, "root"), "tmp", "perf-"+strconv.Itoa(inside)+".map"))
}

const maxJITMap = 1 << 28

// readJITMap is empty without a map, the usual case.
func readJITMap(path string) JITMap {
	file, err := openFile(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxJITMap {
		return nil
	}
	var text strings.Builder
	if _, err := bufio.NewReader(file).WriteTo(&text); err != nil {
		return nil
	}
	return ParseJITMap(text.String())
}
