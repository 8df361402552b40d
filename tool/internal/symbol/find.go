package symbol

import (
	"context"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
)

// A Finder finds files with symbols. It is not safe for concurrent use.
type Finder struct {
	// Open opens a mapped file. If it is nil, the Finder opens the mapping's path.
	Open func(m *profile.Mapping) (*os.File, error)
	// DebugDirs hold debug files by build id, as distributions' packages install them.
	DebugDirs []string
	// Servers are the URLs of debuginfod servers; Cache is the folder for the files that they send.
	Servers []string
	Cache   string
	// FunctionsOnly leaves out lines and inlined functions, which cost time and memory.
	FunctionsOnly bool
	// Builds are files that this Finder shares with others; nil for none.
	Builds *Builds
	// Jitted are the functions that a compiler made while the program ran.
	Jitted JITMap

	objects map[string]*object
}

// Builds are files with symbols by build id, which says that their content is the same. Processes of one program
// share them, as memory and as open files. It is not safe for concurrent use.
type Builds struct{ objects map[string]*object }

// NewBuilds returns an empty set.
func NewBuilds() *Builds { return &Builds{map[string]*object{}} }

// add keeps a file. The set is bounded: a full one begins anew.
func (b *Builds) add(id string, o *object) {
	const most = 200
	if b == nil || id == "" || o == nil {
		return
	}
	if len(b.objects) == most {
		clear(b.objects)
	}
	b.objects[id] = o
}

func (b *Builds) of(id string) *object {
	if b == nil || id == "" {
		return nil
	}
	return b.objects[id]
}

// NewFinder returns a Finder for this machine's symbol folders. getenv supplies DEBUGINFOD_URLS and the
// cache folder.
func NewFinder(getenv func(string) string) *Finder {
	f := &Finder{DebugDirs: []string{"/usr/lib/debug"}, Servers: strings.Fields(getenv("DEBUGINFOD_URLS"))}
	f.Cache = getenv("DEBUGINFOD_CACHE_PATH")
	if base := getenv("XDG_CACHE_HOME"); f.Cache == "" && base != "" {
		f.Cache = filepath.Join(base, "debuginfod_client")
	}
	if home := getenv("HOME"); f.Cache == "" && home != "" {
		f.Cache = filepath.Join(home, ".cache", "debuginfod_client")
	}
	return f
}

func (f *Finder) jitted(address uint64) []Frame { return f.Jitted.frames(address) }

// object is the file of a mapping; nil if no identical file with symbols exists here.
func (f *Finder) object(ctx context.Context, m *profile.Mapping) *object {
	if f.objects == nil {
		f.objects = map[string]*object{}
	}
	name := m.BuildID + " " + m.File
	if o, ok := f.objects[name]; ok {
		return o
	}
	if o := f.Builds.of(m.BuildID); o != nil {
		return o
	}
	o := f.load(ctx, m)
	if m.BuildID != "" && o != nil && f.Builds != nil {
		f.Builds.add(m.BuildID, o)
		return o
	}
	f.objects[name] = o
	return o
}

func (f *Finder) load(ctx context.Context, m *profile.Mapping) *object {
	mapped := f.mapped(m)
	debug := f.debug(ctx, m.BuildID)
	if mapped == nil && debug == nil {
		return nil
	}
	o := newObject(mapped, debug, f.FunctionsOnly)
	if mapped == nil {
		o.segments = codeSegment(debug, m)
	}
	if !o.useful() {
		return nil
	}
	return o
}

// codeSegment returns the executable segment of a debug file, whose file offsets differ from those of
// the mapped file: the mapping is that of the segment with code.
func codeSegment(debug *elf.File, m *profile.Mapping) []elf.ProgHeader {
	for _, p := range debug.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			code := p.ProgHeader
			code.Off, code.Filesz = m.Offset+p.Vaddr&(codePage-1), p.Memsz
			return []elf.ProgHeader{code}
		}
	}
	return nil
}

// mapped opens the file itself, unless it is another one by now.
func (f *Finder) mapped(m *profile.Mapping) *elf.File {
	open := f.Open
	if open == nil {
		open = func(m *profile.Mapping) (*os.File, error) { return openFile(m.File) }
	}
	file, err := open(m)
	if err != nil {
		return nil
	}
	e := parse(file)
	if e != nil && m.BuildID != "" && BuildID(e) != m.BuildID {
		return nil
	}
	return e
}

// openFile opens a file without blocking, so that a pipe without a writer does not stop the command.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

func parse(file *os.File) *elf.File {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil
	}
	e, err := elf.NewFile(file)
	if err != nil {
		file.Close()
		return nil
	}
	return e
}

// BuildID is the id that the linker gave the file, in hexadecimal.
func BuildID(f *elf.File) string {
	section := f.Section(".note.gnu.build-id")
	if section == nil || section.Size < 16 || section.Size > 256 {
		return ""
	}
	data, err := section.Data()
	if err != nil || len(data) < 16 {
		return ""
	}
	return hex.EncodeToString(data[16:])
}

// debug opens the file of debug symbols of a build.
func (f *Finder) debug(ctx context.Context, id string) *elf.File {
	if len(id) < 4 {
		return nil
	}
	paths := []string{}
	for _, dir := range f.DebugDirs {
		paths = append(paths, filepath.Join(dir, ".build-id", id[:2], id[2:]+".debug"))
	}
	kept := ""
	if f.Cache != "" {
		kept = filepath.Join(f.Cache, id, "debuginfo")
		paths = append(paths, kept)
	}
	for _, path := range paths {
		if file, err := os.Open(path); err == nil {
			if e := parse(file); e != nil {
				return e
			}
		}
	}
	for _, server := range f.Servers {
		if kept == "" || fetch(ctx, strings.TrimSuffix(server, "/")+"/buildid/"+id+"/debuginfo", kept) != nil {
			continue
		}
		if file, err := os.Open(kept); err == nil {
			return parse(file)
		}
	}
	return nil
}

// The most that is waited for and taken from a server.
const (
	fetchTime  = 60 * time.Second
	fetchBytes = 4 << 30
)

// fetch gets a file from a server; a part of one never takes the place of the whole.
func fetch(ctx context.Context, url, path string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(path), ".part")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	_, err = io.Copy(part, io.LimitReader(answer.Body, fetchBytes))
	if closeErr := part.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(part.Name(), path)
	}
	return err
}
