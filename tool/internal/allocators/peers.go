package allocators

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/bench/peers"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"
)

// A Peer is a row of bench/peers/peers.toml.
type Peer struct {
	Name, Title, Crate, Version, Package, Library string
	Environment                                   []string
}

// Peers are the rows of the file that the command has with it.
func Peers() ([]Peer, error) {
	var file struct {
		Peers []Peer `toml:"peer"`
	}
	data, err := peers.Files.ReadFile("peers.toml")
	if err != nil {
		return nil, fmt.Errorf("read the list of peers: %w", err)
	}
	if err := toml.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("read the list of peers: %w", err)
	}
	return file.Peers, nil
}

// Commands are `granary peers list` and `granary peers install`.
var Commands = []cli.Command{
	{
		Name: "peers list", Summary: "list the allocators on this machine, and those that could be",
		Examples: []cli.Example{{Line: "peers list", Does: "the allocators that `granary bench` would compare, with versions"}},
		Setup: func(*pflag.FlagSet) cli.Action {
			return cli.Arguments(0, 0, "no argument", func(_ context.Context, env cli.Env, _ []string) error { return listPeers(env) })
		},
	},
	{
		Name: "peers install", Usage: "[NAME...] [--dir DIR]", Summary: "install other allocators on this machine, for comparisons",
		About: "Packages are installed with apt-get, which needs root; crates are fetched with cargo, at pinned versions, and built as preload libraries, " +
			"which needs cargo, a C and C++ compiler, make and cmake. Without names it installs all. The libraries are in DIR/lib, with their versions beside them.",
		Examples: []cli.Example{{Line: "peers install snmalloc mimalloc3", Does: "build two of them"}},
		Takes:    cli.Words, Setup: installSetup,
	},
}

func listPeers(env cli.Env) error {
	rows, err := Peers()
	if err != nil {
		return err
	}
	finder := MachineFinder(env, "")
	found, _ := finder.Found()
	t := term.Table{Header: []string{"NAME", "VERSION", "HOW TO GET IT", "LIBRARY"}}
	for _, c := range found {
		if err := c.Identify(); err != nil {
			return err
		}
		t.Rows = append(t.Rows, []string{c.Name, cmp.Or(c.Version, "-"), "installed", c.Path})
	}
	for _, p := range rows {
		if p.present(found, finder.LibraryDirs) {
			continue
		}
		from := "granary peers install " + p.Name
		if p.Package != "" {
			from += " (package " + p.Package + ")"
		}
		t.Rows = append(t.Rows, []string{p.Name, p.Title, from, "-"})
	}
	width, _ := term.Width(env.Stdout)
	t.Write(env.Stdout, width)
	return nil
}

// present is true of a peer that is on the machine.
func (p Peer) present(found []Allocator, dirs []string) bool {
	if p.Package != "" {
		return slices.ContainsFunc(dirs, func(dir string) bool {
			_, err := os.Stat(filepath.Join(dir, p.Library))
			return err == nil
		})
	}
	return slices.ContainsFunc(found, func(c Allocator) bool {
		return strings.TrimSuffix(filepath.Base(c.Path), ".so") == p.Name
	})
}

// MachineFinder returns a Finder for this machine. lib is the path of Granary's library, or empty for the default.
func MachineFinder(env cli.Env, lib string) Finder {
	return Finder{
		LibraryDirs: preload.LibraryDirs(), PeersDir: PeersDir(env.Getenv),
		FindGranary: func() (string, error) { return preload.Library(lib, env.Getenv("GRANARY_LIB"), env.Exe) },
	}
}

func installSetup(fs *pflag.FlagSet) cli.Action {
	dir := fs.String("dir", "", "the `folder` of the built libraries (default: granary/peers in the user's data folder)")
	return func(ctx context.Context, env cli.Env, names []string) error {
		where := *dir
		if where == "" {
			where = filepath.Dir(DataDir(env.Getenv))
		}
		return install(ctx, env, where, names)
	}
}

func install(ctx context.Context, env cli.Env, dir string, names []string) error {
	rows, err := Peers()
	if err != nil {
		return err
	}
	var packages, crates []string
	for _, name := range names {
		if !slices.ContainsFunc(rows, func(p Peer) bool { return p.Name == name }) {
			return cli.Usagef("there is no peer %q; `granary peers list` names them", name)
		}
	}
	for _, p := range rows {
		switch {
		case len(names) > 0 && !slices.Contains(names, p.Name):
		case p.Package != "":
			packages = append(packages, p.Package)
		default:
			crates = append(crates, p.Name)
		}
	}
	if len(packages) > 0 {
		err = call(ctx, env, "apt-get", append([]string{"install", "-y", "--no-install-recommends"}, packages...)...)
	}
	if len(crates) > 0 {
		err = errors.Join(err, build(ctx, env, dir, crates))
	}
	return err
}

// build runs the build script from a temporary folder.
func build(ctx context.Context, env cli.Env, dir string, names []string) error {
	scripts, err := os.MkdirTemp("", "granary-peers-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer os.RemoveAll(scripts)
	if err := os.CopyFS(scripts, peers.Files); err != nil {
		return fmt.Errorf("unpack the build script: %w", err)
	}
	for _, tool := range []string{"cargo", "g++", "make", "cmake"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed, which building the peers takes: %w", tool, fs.ErrNotExist)
		}
	}
	if err := call(ctx, env, "bash", append([]string{filepath.Join(scripts, "build.sh"), dir}, names...)...); err != nil {
		return err
	}
	lib := filepath.Join(dir, "lib")
	if lib != PeersDir(env.Getenv) {
		fmt.Fprintf(env.Stdout, "`granary bench` finds them with GRANARY_PEERS=%s\n", lib)
	}
	return nil
}

func call(ctx context.Context, env cli.Env, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = env.Stdout, env.Stderr, env.Environ
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s failed; its own words are above: %w", name, args[0], err)
	}
	return nil
}
