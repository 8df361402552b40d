package scenarios

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
)

//go:embed programs/rax_uuid.c
var raxProgram string

var rax = runner.Scenario{
	Name:    "rax",
	Summary: "compare allocators under the radix tree of Redis, filled with numbers and with uuids",
	About: "The tree is compiled from Redis' own sources: those in the folder given with --source, else Debian's source package, which is fetched " +
		"with apt-get into a temporary folder.",
	Rounds: measure.Rounds{Full: 5, Quick: 3},
	Needs:  []runner.Need{{Program: "cc", Package: "gcc libc6-dev"}, {Program: "apt-get", Package: "apt"}, {Program: "tar", Package: "tar"}},
	Params: []runner.Param{
		{Name: "numbers", Kind: runner.Number, Full: "1000000", Quick: "200000", Least: 1000, Help: "number of keys of six digits"},
		{Name: "uuids", Kind: runner.Number, Full: "2000000", Quick: "200000", Long: "15001367", Least: 1000, Help: "number of keys of a slot's two bytes and 32 random hexadecimal digits"},
		{Name: "source", Kind: runner.Words, Help: "the folder that holds rax.c"},
	},
	Prepare: prepareRax,
	Phases: func(values runner.Values) []runner.Phase {
		var list []runner.Phase
		for _, kind := range []struct{ word, param string }{{"number", "numbers"}, {"uuid", "uuids"}} {
			rows := append([]result.Row{
				runner.LowerRow("RSS of the tree", "bytes"), runner.LowerRow("insert", "ns"), runner.LowerRow("find", "ns"), runner.LowerRow("free", "ns"),
				runner.LowerRow("RSS after the fall", "bytes"), {Metric: "nodes", Unit: "count"}, {Metric: "keys", Unit: "count"},
			}, runner.ProgramRows()...)
			list = append(list, runner.Phase{Name: values[kind.param] + " " + kind.word + " keys", Rows: rows, Do: func(ctx context.Context, v *runner.Visit) error {
				_, err := v.Program(ctx, runner.ServerSpec{Name: "rax_uuid", Path: filepath.Join(v.Shared.Dir, "rax_uuid"), Args: []string{kind.word, v.Values[kind.param]}})
				return err
			}})
		}
		return list
	},
}

// raxMalloc makes the tree call malloc directly instead of Redis' wrapper, which keeps statistics.
const raxMalloc = `#include <stdlib.h>
#define rax_malloc malloc
#define rax_realloc realloc
#define rax_free free
`

// prepareRax compiles the driver with Redis' tree.
func prepareRax(ctx context.Context, shared *runner.Shared) error {
	source := shared.Values["source"]
	if source == "" {
		var err error
		if source, err = fetchRax(ctx, shared); err != nil {
			return fmt.Errorf("the sources of Redis cannot be fetched; give the folder that holds rax.c with --source: %w", err)
		}
	}
	if _, err := os.Stat(filepath.Join(source, "rax.c")); err != nil {
		return fmt.Errorf("there is no rax.c in %s; name the folder `src` of Redis' sources: %w", source, err)
	}
	for name, text := range map[string]string{"rax_uuid.c": raxProgram, "rax_plain_malloc.h": raxMalloc} {
		if err := os.WriteFile(filepath.Join(shared.Dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write the driver: %w", err)
		}
	}
	_, err := shared.Tool(ctx, shared.Paths["cc"], "-O2", "-w", "-fno-builtin-malloc", `-DRAX_MALLOC_INCLUDE="rax_plain_malloc.h"`,
		"-I"+shared.Dir, "-I"+source, "-o", filepath.Join(shared.Dir, "rax_uuid"), filepath.Join(shared.Dir, "rax_uuid.c"), filepath.Join(source, "rax.c"), "-lm")
	return err
}

// fetchRax downloads the source package of redis from the package servers that this machine uses. apt
// needs entries for source packages; fetchRax adds them to a copy of apt's lists and leaves the machine's
// configuration unchanged.
func fetchRax(ctx context.Context, shared *runner.Shared) (string, error) {
	dir := filepath.Join(shared.Dir, "redis")
	for _, sub := range []string{"lists/partial", "cache/archives/partial", "parts"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return "", fmt.Errorf("make a folder for sources: %w", err)
		}
	}
	if err := sourceLists(filepath.Join(dir, "parts")); err != nil {
		return "", err
	}
	options := []string{"-q", "-o", "Dir::Etc::sourcelist=/dev/null", "-o", "Dir::Etc::sourceparts=" + filepath.Join(dir, "parts"),
		"-o", "Dir::State::lists=" + filepath.Join(dir, "lists"), "-o", "Dir::Cache=" + filepath.Join(dir, "cache"), "-o", "APT::Sandbox::User=root"}
	if _, err := shared.Tool(ctx, shared.Paths["apt-get"], append(options, "update")...); err != nil {
		return "", err
	}
	// apt-get leaves what it fetches in the current folder.
	script := `cd "$1" && shift && exec "$@"`
	fetch := append([]string{"-c", script, "sh", dir, shared.Paths["apt-get"]}, append(options, "source", "--download-only", "redis")...)
	if _, err := shared.Tool(ctx, "/bin/sh", fetch...); err != nil {
		return "", err
	}
	archives, _ := filepath.Glob(filepath.Join(dir, "redis_*.orig.tar.*")) // well formed
	archives = withoutSignatures(archives)
	if len(archives) != 1 {
		return "", fmt.Errorf("apt-get fetched %d archives of redis, expected 1", len(archives))
	}
	if _, err := shared.Tool(ctx, shared.Paths["tar"], "-x", "-f", archives[0], "-C", dir); err != nil {
		return "", err
	}
	sources, _ := filepath.Glob(filepath.Join(dir, "redis-*/src")) // well formed
	if len(sources) != 1 {
		return "", fmt.Errorf("the archive of redis holds %d folders redis-*/src, expected 1", len(sources))
	}
	return sources[0], nil
}

func withoutSignatures(paths []string) []string {
	var out []string
	for _, path := range paths {
		if !strings.HasSuffix(path, ".asc") {
			out = append(out, path)
		}
	}
	return out
}

// sourceLists copies the machine's lists of Debian packages as lists of Debian sources.
func sourceLists(dir string) error {
	paths, _ := filepath.Glob("/etc/apt/sources.list.d/*") // well formed
	found := 0
	for i, path := range append([]string{"/etc/apt/sources.list"}, paths...) {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "debian") && !strings.Contains(string(text), "ubuntu") {
			continue
		}
		var out strings.Builder
		for line := range strings.Lines(string(text)) {
			switch {
			case strings.HasPrefix(line, "deb "):
				line = "deb-src " + strings.TrimPrefix(line, "deb ")
			case strings.HasPrefix(line, "Types:"):
				line = "Types: deb-src\n"
			}
			out.WriteString(line)
		}
		name := fmt.Sprintf("%d%s", i, filepath.Ext(path))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(out.String()), 0o644); err != nil {
			return fmt.Errorf("write a list of sources: %w", err)
		}
		found++
	}
	if found == 0 {
		return fmt.Errorf("this machine has no list of Debian or Ubuntu packages")
	}
	return nil
}
