package preload

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// LibraryName is the file that is preloaded.
const LibraryName = "libgranary.so"

// names are those it may have; without the packages for development only the second is there, and it
// stays the same for all versions that fit.
var names = []string{LibraryName + ".1", LibraryName}

var triplets = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}

// LibraryDirs are the folders in which this kind of machine keeps shared libraries.
func LibraryDirs() []string {
	triplet := triplets[runtime.GOARCH]
	return []string{
		"/usr/local/lib", "/usr/local/lib/" + triplet, "/usr/lib/" + triplet,
		"/lib/" + triplet, "/usr/lib64", "/lib64", "/usr/lib", "/lib",
	}
}

// Library finds libgranary.so: where the user says, else beside the command (as built and as
// installed), else where libraries are installed.
func Library(flag, variable, exe string) (string, error) {
	for _, named := range []struct{ from, path string }{{"--lib", flag}, {"GRANARY_LIB", variable}} {
		if named.path == "" {
			continue
		}
		if !isFile(named.path) {
			return "", fmt.Errorf("%s names %s, which is not a file; correct the path", named.from, named.path)
		}
		return preloadable(named.path)
	}
	if path := firstIn("", append(beside(exe), LibraryDirs()...)); path != "" {
		return preloadable(path)
	}
	return "", fmt.Errorf("%s was not found; build it with `make`, or name it with --lib PATH or GRANARY_LIB", LibraryName)
}

// RecorderName is the file that `granary record` preloads.
const RecorderName = "libgranary-record.so"

// Recorder finds the recorder: where the user says, else beside the command or installed.
func Recorder(flag, exe string) (string, error) {
	dirs := append(beside(exe), LibraryDirs()...)
	if flag != "" {
		if !isFile(flag) {
			return "", fmt.Errorf("--lib names %s, which is not a file; correct the path", flag)
		}
		return preloadable(flag)
	}
	for _, dir := range dirs {
		if path := filepath.Join(dir, RecorderName); isFile(path) {
			return preloadable(path)
		}
	}
	return "", fmt.Errorf("%s was not found; build it with `make`, or name it with --lib PATH", RecorderName)
}

// Installed finds the library in the system below root, by its path inside that root.
func Installed(root string) (string, error) {
	if path := firstIn(root, LibraryDirs()); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("%s is not installed below %s; install it there, or name it with --lib PATH", LibraryName, root)
}

// firstIn is the first library in the folders, below root.
func firstIn(root string, dirs []string) string {
	for _, dir := range dirs {
		for _, name := range names {
			if path := filepath.Join(dir, name); isFile(filepath.Join(root, path)) {
				return path
			}
		}
	}
	return ""
}

func beside(exe string) []string {
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	lib := filepath.Join(filepath.Dir(exe), "..", "lib")
	return []string{lib, filepath.Join(lib, triplets[runtime.GOARCH]), lib + "64"}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// preloadable makes the path absolute, as the program may change its folder before the loader of a
// child reads it, and refuses the separators of LD_PRELOAD.
func preloadable(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("make the library's path absolute: %w", err)
	}
	if strings.ContainsAny(path, ": \t\n") {
		return "", fmt.Errorf("LD_PRELOAD cannot hold %q, as a colon or space separates its entries; move the library", path)
	}
	return path, nil
}
