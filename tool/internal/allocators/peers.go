package allocators

import (
	"cmp"
	"context"
	"fmt"
	"os"
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
		Name: "peers list", Summary: "list the allocators on this machine, and those that can be installed",
		Examples: []cli.Example{{Line: "peers list", Does: "the allocators that `granary bench` would compare, with versions"}},
		Setup: func(*pflag.FlagSet) cli.Action {
			return cli.Arguments(0, 0, "no argument", func(_ context.Context, env cli.Env, _ []string) error { return listPeers(env) })
		},
	},
	{
		Name: "peers install", Usage: "NAME... | --all [--dir DIR]", Summary: "install other allocators on this machine, for comparisons",
		About: "Packages are installed with apt-get, which needs root; crates are fetched with cargo, at pinned versions, and built as preload libraries, " +
			"which needs cargo, a C and C++ compiler, make and cmake. Without names it installs nothing and lists what it would install. " +
			"The libraries are in DIR/lib, with their versions beside them.",
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
