package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// Granary is Granary's name in the list of allocators.
const Granary = "granary"

// How an allocator came into a process.
const (
	Preloaded = "preloaded" // by LD_PRELOAD or /etc/ld.so.preload
	Linked    = "linked"    // a shared library the program needs
	Static    = "static"    // part of the program's own file
	System    = "system"    // the C library's own
)

// Running is the allocator a process calls.
type Running struct {
	Name    string   `json:"name"`              // "granary", "jemalloc" ..., "Go" for the Go runtime, "unknown"
	Version string   `json:"version,omitempty"` // as far as its file says
	How     string   `json:"how"`
	Path    string   `json:"path"`             // the file that contains it
	Others  []Loaded `json:"others,omitempty"` // further allocators in the process, whose malloc is not the one called
}

// Loaded is an allocator's file in a process.
type Loaded struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// AllocatorOf finds the allocator of a process from its maps and the files in them: the first definition of
// malloc in the loader's order is the one that is called. Nothing is read from its memory.
func AllocatorOf(proc procfs.FS, pid int) (Running, error) {
	maps, err := proc.Maps(pid)
	if err != nil {
		return Running{}, err
	}
	p := mappedProcess{proc: proc, pid: pid, files: executableFiles(maps)}
	switch {
	case len(maps) == 0:
		return Running{}, procfs.ErrNoMemory
	case len(p.files) == 0: // in the middle of exec, or made of memory only
		return Running{Name: "unknown"}, nil
	}
	if environ, err := proc.Environ(pid); err == nil {
		p.environ = environ
	}
	return p.allocator(), nil
}

type mappedProcess struct {
	proc    procfs.FS
	pid     int
	files   []string // mapped with the right to execute, the program's first
	environ []string
}

// executableFiles are those the process may execute code of.
func executableFiles(maps []procfs.Mapping) []string {
	var out []string
	for _, m := range maps {
		if strings.Contains(m.Perms, "x") && strings.HasPrefix(m.Path, "/") && !slices.Contains(out, m.Path) {
			out = append(out, m.Path)
		}
	}
	return out
}

func (p mappedProcess) program() string {
	path, err := os.Readlink(p.proc.Path(p.pid, "exe"))
	if err != nil {
		return p.files[0]
	}
	return path
}

// inspect reads a mapped file through the process's root, because the process may be in another mount namespace.
func (p mappedProcess) inspect(path string) (elfFile, error) {
	if path == p.program() {
		return readBinary(p.proc.Path(p.pid, "exe"), path)
	}
	b, err := readBinary(filepath.Join(p.proc.Path(p.pid, "root"), path), path)
	if err != nil {
		b, err = readBinary(path, path)
	}
	if err != nil { // replaced since it was loaded: only its name is known
		if s, ok := byLibrary(path); ok {
			return elfFile{kind: s.name, definesMalloc: true, soname: filepath.Base(strings.TrimSuffix(path, " (deleted)"))}, nil
		}
	}
	return b, err
}

func (p mappedProcess) allocator() Running {
	program := p.program()
	own, err := p.inspect(program)
	if err == nil && own.kind != "" {
		return p.with(Running{Name: own.kind, Version: own.version, How: Static, Path: program})
	}
	if err == nil && own.static {
		name := "unknown"
		if own.goProgram {
			name = "Go"
		}
		return p.with(Running{Name: name, How: Static, Path: program})
	}
	for _, lib := range p.order(own) {
		if !lib.definesMalloc {
			continue
		}
		r := lib.running()
		if own.goProgram && r.How == System {
			r = Running{Name: "Go", How: Static, Path: program}
		}
		return p.with(r)
	}
	return p.with(Running{Name: "unknown", Path: program})
}

// with adds the allocators that are loaded but not called; the C library is always there.
func (p mappedProcess) with(r Running) Running {
	for _, path := range p.files {
		b, err := p.inspect(path)
		if err != nil || b.kind == "" || path == r.Path || b.kind == "glibc" || b.kind == "musl" {
			continue
		}
		r.Others = append(r.Others, Loaded{Name: b.kind, Path: path})
	}
	return r
}

// A library is a mapped file in the loader's order.
type library struct {
	elfFile
	path      string
	preloaded bool
}

func (l library) running() Running {
	r := Running{Name: l.kind, Version: l.version, How: Linked, Path: l.path}
	switch {
	case l.kind == "":
		r.Name = "unknown"
	case l.kind == "glibc" || l.kind == "musl":
		r.How = System
	}
	if l.preloaded {
		r.How = Preloaded
	}
	return r
}

// order returns the libraries in the loader's search order for symbols: the preloaded ones, then the
// program's dependencies, then the dependencies of these.
func (p mappedProcess) order(program elfFile) []library {
	var found []library
	for _, path := range p.files {
		if b, err := p.inspect(path); err == nil {
			found = append(found, library{elfFile: b, path: path})
		}
	}
	var out []library
	take := func(name string, preloaded bool) {
		i := slices.IndexFunc(found, func(l library) bool { return l.answersTo(name) })
		if i >= 0 && !slices.ContainsFunc(out, func(l library) bool { return l.path == found[i].path }) {
			found[i].preloaded = preloaded
			out = append(out, found[i])
		}
	}
	for _, name := range p.preloads() {
		take(name, true)
	}
	if len(out) == 0 {
		out = unneeded(found)
	}
	for _, name := range program.needed {
		take(name, false)
	}
	for i := 0; i < len(out); i++ { // grows while it is walked: breadth first
		for _, name := range out[i].needed {
			take(name, false)
		}
	}
	return out
}

// unneeded are the allocators that must have been preloaded although the environment does not say so,
// as a program may write over it: nothing needs them, and they were mapped before the C library. The
// kernel maps downwards.
func unneeded(found []library) []library {
	var out []library
	for i, l := range found {
		named := slices.ContainsFunc(found, func(by library) bool { return slices.ContainsFunc(by.needed, l.answersTo) })
		early := slices.ContainsFunc(found[:i], func(c library) bool { return c.kind == "glibc" || c.kind == "musl" })
		if !named && early && l.definesMalloc && l.kind != "" && l.kind != "musl" {
			l.preloaded = true
			out = append(out, l)
		}
	}
	slices.Reverse(out)
	return out
}

// preloads are the names in LD_PRELOAD and /etc/ld.so.preload.
func (p mappedProcess) preloads() []string {
	var names []string
	for _, entry := range p.environ {
		if value, ok := strings.CutPrefix(entry, "LD_PRELOAD="); ok {
			names = strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ' ' })
		}
	}
	system, err := os.ReadFile(filepath.Join(p.proc.Path(p.pid, "root"), "/etc/ld.so.preload"))
	if err == nil {
		names = append(names, strings.Fields(string(system))...)
	}
	return names
}

// answersTo is true when name, a path or a soname, means this file.
func (l library) answersTo(name string) bool {
	if name == l.path || name == l.soname {
		return true
	}
	if strings.Contains(name, "/") {
		real, err := filepath.EvalSymlinks(name)
		return err == nil && real == l.path || filepath.Base(name) == l.soname && l.soname != ""
	}
	return filepath.Base(l.path) == name
}

// Describe is the allocator in a few words: "jemalloc 5.3.0, preloaded".
func (r Running) Describe() string {
	text := r.Name
	if r.Version != "" {
		text += " " + r.Version
	}
	if r.How != "" {
		text += ", " + r.How
	}
	return text
}

// ProgramFile describes the allocator of a program file.
type ProgramFile struct {
	Kind          string // an allocator that is part of the file, or ""
	Static        bool   // it has no dynamic loader
	DefinesMalloc bool
	Go            bool
	Needs         []string // allocators among the libraries it is linked to
}

// AllocatorInFile finds the allocator of a program file without running it.
func AllocatorInFile(path string) (ProgramFile, error) {
	b, err := readBinary(path, path)
	if err != nil {
		return ProgramFile{}, fmt.Errorf("read the program %s: %w", path, err)
	}
	f := ProgramFile{Kind: b.kind, Static: b.static, DefinesMalloc: b.definesMalloc, Go: b.goProgram}
	for _, name := range b.needed {
		if s, ok := byLibrary(name); ok && s.name != "glibc" && s.name != "musl" {
			f.Needs = append(f.Needs, s.name)
		}
	}
	return f, nil
}
