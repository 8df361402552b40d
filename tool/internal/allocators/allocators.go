// Package allocators finds the allocators that a comparison can preload, selects some of them by name
// and installs the public ones.
package allocators

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// An Allocator is one allocator with its settings: one column of a comparison.
type Allocator struct {
	Name   string   `json:"name"`
	Path   string   `json:"path"`
	Env    []string `json:"env,omitempty"`
	SHA256 string   `json:"sha256,omitempty"`
	// Version is from the file, or from NAME.version beside it; empty if neither has one.
	Version string `json:"version,omitempty"`
	// System marks the C library's own allocator, which a program has without any preload unless it
	// is linked to another.
	System bool `json:"system,omitempty"`
}

// IsGranary reports whether the allocator is Granary, with any settings.
func (c Allocator) IsGranary() bool {
	return c.Name == inspect.Granary || strings.HasPrefix(c.Name, inspect.Granary+":")
}

// Variables returns the environment variables that make a program use this allocator. The system's
// allocator is preloaded only if preloadSystem is set, for a program linked to another allocator.
func (c Allocator) Variables(preloadSystem bool) []string {
	vars := slices.Clone(c.Env)
	if !c.System || preloadSystem {
		vars = append(vars, "LD_PRELOAD="+c.Path)
	}
	return vars
}

// known are the allocators that packages install, and the package to install when one is missing.
var known = []struct {
	name, pkg string
	files     []string
	system    bool
}{
	{"glibc", "libc6", []string{"libc.so.6"}, true},
	{"jemalloc", "libjemalloc2", []string{"libjemalloc.so.2"}, false},
	{"tcmalloc", "libtcmalloc-minimal4", []string{"libtcmalloc_minimal.so.4", "libtcmalloc.so.4"}, false},
	{"mimalloc", "libmimalloc2.0", []string{"libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so.2.0"}, false},
}

// A Finder finds the installed allocators. Its fields describe where it searches, so tests can replace them.
type Finder struct {
	LibraryDirs []string               // where packages install libraries
	PeersDir    string                 // NAME.so, with its variables a line each in NAME.env
	FindGranary func() (string, error) // libgranary.so
}

// Found returns the installed allocators, and one message for each allocator that is missing.
func (f Finder) Found() (found []Allocator, missing []string) {
	for _, k := range known {
		path, ok := f.library(k.files)
		if !ok {
			missing = append(missing, fmt.Sprintf("%s is left out: %s is not installed; install the package %s", k.name, k.files[0], k.pkg))
			continue
		}
		found = append(found, Allocator{Name: k.name, Path: path, System: k.system})
	}
	found = append(found, f.peers(found)...)
	library, err := f.FindGranary()
	if err != nil {
		return found, append(missing, fmt.Sprintf("%s is left out: %v", inspect.Granary, err))
	}
	return append(found, Allocator{Name: inspect.Granary, Path: library}), missing
}

func (f Finder) library(files []string) (string, bool) {
	for _, file := range files {
		for _, dir := range f.LibraryDirs {
			path := filepath.Join(dir, file)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path, true
			}
		}
	}
	return "", false
}

// peers are the libraries of PeersDir. One with the name of a package's allocator gets a
// prefix, as it is another version.
func (f Finder) peers(taken []Allocator) []Allocator {
	if f.PeersDir == "" {
		return nil
	}
	paths, _ := filepath.Glob(filepath.Join(f.PeersDir, "*.so")) // the pattern is well formed
	var out []Allocator
	for _, path := range paths {
		name := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), ".so"), "lib")
		if slices.ContainsFunc(taken, func(c Allocator) bool { return c.Name == name }) {
			name = "new-" + name
		}
		vars, _ := os.ReadFile(strings.TrimSuffix(path, ".so") + ".env") // most need none
		out = append(out, Allocator{Name: name, Path: path, Env: strings.Fields(string(vars))})
	}
	return out
}

// Select gives the allocators that a list names, in its order: names of found ones,
// NAME=PATH[,VARIABLE=VALUE...], or either with settings, NAME:SETTING=VALUE[+SETTING=VALUE...]. An empty list selects all that are found.
func (f Finder) Select(list string) (selected []Allocator, notes []string, err error) {
	found, missing := f.Found()
	if list == "" {
		selected, notes = found, missing
	} else if selected, err = pick(list, found, missing); err != nil {
		return nil, nil, err
	}
	if len(selected) == 0 {
		return nil, nil, fmt.Errorf("no allocator was found; name one with --allocators NAME=PATH")
	}
	for i := range selected {
		if err := selected[i].Identify(); err != nil {
			return nil, nil, err
		}
	}
	return selected, notes, nil
}

func pick(list string, found []Allocator, missing []string) ([]Allocator, error) {
	var out []Allocator
	for item := range strings.SplitSeq(list, ",") {
		name, value, assigned := strings.Cut(item, "=")
		switch {
		case assigned && strings.Contains(name, ":"):
			c, err := withSettings(item, append(slices.Clone(found), out...), missing)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		case assigned && isVariable(name) && len(out) > 0:
			last := &out[len(out)-1]
			last.Env = append(last.Env, item)
		case assigned:
			out = append(out, Allocator{Name: name, Path: value})
		default:
			c, err := named(name, found, missing)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
	}
	for i, c := range out {
		if slices.ContainsFunc(out[:i], func(o Allocator) bool { return o.Name == c.Name }) {
			return nil, fmt.Errorf("--allocators names %s twice; give each its own NAME=PATH", c.Name)
		}
	}
	return out, nil
}

// isVariable distinguishes VARIABLE=VALUE, which belongs to the allocator before it, from NAME=PATH,
// which names the next allocator.
func isVariable(name string) bool {
	return name != "" && name == strings.ToUpper(name)
}

func named(name string, found []Allocator, missing []string) (Allocator, error) {
	var names []string
	for _, c := range found {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	for _, message := range missing {
		if rest, ok := strings.CutPrefix(message, name+" is left out: "); ok {
			return Allocator{}, fmt.Errorf("%s cannot be measured: %s", name, rest)
		}
	}
	return Allocator{}, fmt.Errorf("there is no allocator %q; choose from %s, or give NAME=PATH", name, strings.Join(names, ", "))
}

// Identify makes the path real and notes which bytes are measured.
func (c *Allocator) Identify() error {
	path, err := filepath.Abs(c.Path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return fmt.Errorf("the library of %s: %w", c.Name, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("the library of %s: %w", c.Name, err)
	}
	sum := sha256.Sum256(data)
	c.Version = versionOf(c.Path, path)
	c.Path, c.SHA256 = path, hex.EncodeToString(sum[:])
	return nil
}

// versionOf returns the content of NAME.version beside a library, or else the version in the library's file.
func versionOf(named, real string) string {
	if text, err := os.ReadFile(strings.TrimSuffix(named, ".so") + ".version"); err == nil {
		return strings.TrimSpace(string(text))
	}
	return inspect.FileVersion(real)
}

// DataDir is where `granary peers install` puts libraries by default.
func DataDir(getenv func(string) string) string {
	data := getenv("XDG_DATA_HOME")
	if data == "" {
		data = filepath.Join(getenv("HOME"), ".local", "share")
	}
	return filepath.Join(data, "granary", "peers", "lib")
}

// PeersDir is the folder of libraries to compare with: $GRANARY_PEERS, else DataDir.
func PeersDir(getenv func(string) string) string {
	if dir := getenv("GRANARY_PEERS"); dir != "" {
		return dir
	}
	return DataDir(getenv)
}
