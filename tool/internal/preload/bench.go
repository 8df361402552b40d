package preload

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"
)

// ReadSuite reads a suite or layout into the value, and refuses settings that it does not have. The noun names the
// file in messages.
func ReadSuite(path, noun string, into any) error {
	meta, err := toml.DecodeFile(path, into)
	if err != nil {
		return fmt.Errorf("read the %s: %w", noun, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return fmt.Errorf("%s: there is no setting %q; correct its name", path, unknown[0].String())
	}
	return nil
}

// Suite is the path of a suite file. It is that of the source tree if there is none.
func Suite(exe, name string) string {
	source := filepath.Join("bench", "suites", name)
	return first(source, source, from(exe, "..", "..", source), from(exe, "..", "share", "granary", "suites", name))
}

// Programs is the folder of the benchmark programs. It is that of the source tree if there is none.
func Programs(exe string) string {
	source := filepath.Join("build", "bench")
	return first(source, source, from(exe, "..", "bench"), from(exe, "..", "libexec", "granary", "bench"))
}

// BenchProgram is the path of a benchmark program; the source tree may be around the current folder.
func BenchProgram(exe, name string) (string, error) {
	dirs := []string{from(exe, "..", "bench"), from(exe, "..", "libexec", "granary", "bench")}
	if dir, err := os.Getwd(); err == nil {
		for ; dir != "/"; dir = filepath.Dir(dir) {
			dirs = append(dirs, filepath.Join(dir, "build", "bench"))
		}
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not built; build it with `cmake --build build --target bench/all`", name)
}

// from is a path relative to the folder of the command.
func from(exe string, elements ...string) string {
	return filepath.Join(append([]string{filepath.Dir(exe)}, elements...)...)
}

func first(otherwise string, paths ...string) string {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return otherwise
}
