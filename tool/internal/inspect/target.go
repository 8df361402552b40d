package inspect

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// A Target is a process or a core file whose heap can be read. It is not safe for concurrent use.
type Target struct {
	// PID is the process; 0 for a core file.
	PID int
	// Library is the file that holds the library: libgranary.so, or the program it is linked into.
	Library string
	// Version is the library's.
	Version string
	// Published says that the process may not be read, and that what it publishes (option stats_file)
	// is read instead: figures of up to a second ago, no map of the heap, and no commands.
	Published bool

	memory memory
	layout *layout
	mark   mark
}

// Open prepares to read process pid. It fails with ErrNotGranary, ErrNoRights, ErrGone, ErrVersion or
// ErrDamaged.
func Open(pid int) (*Target, error) {
	t, err := openProcess(procfs.Live(), pid)
	if errors.Is(err, ErrNoRights) {
		if published, publishedErr := openPublished(procfs.Live(), pid); publishedErr == nil {
			return published, nil
		}
	}
	return t, err
}

func openProcess(fs procfs.FS, pid int) (*Target, error) {
	maps, err := fs.Maps(pid)
	if err != nil {
		return nil, explainMaps(fs, pid, err)
	}
	if len(maps) == 0 {
		return nil, failure(ErrGone, "process %d has ended or is a kernel thread: `granary ps` lists those that run", pid)
	}
	t, err := open(process{pid}, imagesOf(maps))
	if errors.Is(err, ErrNotGranary) {
		return nil, notGranary(pid, maps)
	}
	if t != nil {
		t.PID = pid
	}
	return t, err
}

// Close closes the target's core file, if it has one.
func (t *Target) Close() error { return t.memory.close() }

// Address is where the library is in the process. It changes with exec.
func (t *Target) Address() uint64 { return t.mark.descriptor }

// Unchanged is true if the library is still where it was found: the process has neither ended nor called exec.
// What a process publishes does not tell.
func (t *Target) Unchanged() bool {
	if t.Published {
		return false
	}
	head, err := readAt(t.memory, t.mark.descriptor, len(magic))
	return err == nil && string(head) == magic
}

// imagesOf are the files that are mapped from their beginning.
func imagesOf(maps []procfs.Mapping) (images []image) {
	for _, m := range maps {
		if m.Offset == 0 && strings.HasPrefix(m.Path, "/") && strings.HasPrefix(m.Perms, "r") {
			images = append(images, image{m.Start, strings.TrimSuffix(m.Path, " (deleted)")})
		}
	}
	return images
}

// open finds the library. Where there are two (a program linked to it that is also run with it
// preloaded), the one that serves malloc is the one with more memory.
func open(m memory, images []image) (*Target, error) {
	marks, err := findMarks(m, images)
	if err != nil {
		return nil, err
	}
	var best *Target
	var most uint64
	err = failure(ErrNotGranary, "no file of the process holds Granary")
	for _, mark := range marks {
		t, openErr := openMark(m, mark)
		if openErr != nil {
			err = openErr
			continue
		}
		mapped, openErr := t.figure("pages.mapped")
		if openErr == nil && (best == nil || mapped > most) {
			best, most = t, mapped
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, err
}

func openMark(m memory, mark mark) (*Target, error) {
	if mark.version != noteVersion {
		return nil, failure(ErrVersion, "the library in the process is marked in version %d, this command knows version %d: use the granary command that came with the library", mark.version, noteVersion)
	}
	layout, err := readLayout(m, mark.descriptor)
	if err != nil {
		return nil, err
	}
	return &Target{Library: mark.image.path, Version: layout.library, memory: m, layout: layout, mark: mark}, nil
}

// figure reads one cell of one number.
func (t *Target) figure(name string) (uint64, error) {
	address, c, err := t.place(name)
	if err != nil {
		return 0, err
	}
	b, err := readAt(t.memory, address, int(min(c.width, 8)))
	if err != nil {
		return 0, err
	}
	v, _ := number(b, 0, c.width)
	return v, nil
}

// place returns the address of a cell.
func (t *Target) place(name string) (uint64, cell, error) {
	i, ok := t.layout.cellNames[name]
	if !ok || int(t.layout.cells[i].base) >= len(t.mark.bases) {
		return 0, cell{}, failure(ErrVersion, "the library in the process does not publish %s: use the granary command that came with it", name)
	}
	c := t.layout.cells[i]
	return t.mark.bases[c.base] + c.offset, c, nil
}

func explainMaps(fs procfs.FS, pid int, err error) error {
	if _, statErr := fs.Stat(pid); statErr != nil {
		return gone(pid)
	}
	return noRights(pid)
}

// libraries are parts of file names that tell an allocator.
var libraries = []struct{ part, name string }{
	{"libjemalloc", "jemalloc"},
	{"libtcmalloc", "TCMalloc"},
	{"libmimalloc", "mimalloc"},
	{"libsnmalloc", "snmalloc"},
	{"librpmalloc", "rpmalloc"},
	{"libhardened_malloc", "hardened_malloc"},
	{"libtbbmalloc", "tbbmalloc"},
	{"ld-musl", "musl's malloc"},
	{"libc.so", "the C library's malloc"},
	{"libc-2", "the C library's malloc"},
}

func notGranary(pid int, maps []procfs.Mapping) error {
	name := "an allocator that is linked into it"
search:
	for _, l := range libraries {
		for _, m := range maps {
			if strings.Contains(filepath.Base(m.Path), l.part) {
				name = l.name
				break search
			}
		}
	}
	message := fmt.Sprintf("process %d does not run Granary but %s: start it with `granary run -- COMMAND`", pid, name)
	return &Error{Cause: ErrNotGranary, Message: message, Allocator: name}
}
