package allocators

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/granary-allocator/granary/bench/peers"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

func installSetup(fs *pflag.FlagSet) cli.Action {
	dir := fs.String("dir", "", "the `folder` of the built libraries (default: granary/peers in the user's data folder)")
	all := fs.Bool("all", false, "install all of them")
	return func(ctx context.Context, env cli.Env, names []string) error {
		chosen, err := choose(env, names, *all)
		if err != nil {
			return err
		}
		where := *dir
		if where == "" {
			where = filepath.Dir(DataDir(env.Getenv))
		}
		return install(ctx, env, where, chosen)
	}
}

// choose returns the peers to install. If the user named none, it lists them and returns an error.
func choose(env cli.Env, names []string, all bool) ([]Peer, error) {
	rows, err := Peers()
	if err != nil || all && len(names) == 0 {
		return rows, err
	}
	if all {
		return nil, cli.Usagef("give names or --all, not both")
	}
	if len(names) == 0 {
		offer(env, rows)
		return nil, cli.Usagef("nothing was installed: name the allocators, or give --all")
	}
	var chosen []Peer
	for _, name := range names {
		i := slices.IndexFunc(rows, func(p Peer) bool { return p.Name == name })
		if i < 0 {
			return nil, cli.Usagef("there is no peer %q; `granary peers list` names them", name)
		}
		chosen = append(chosen, rows[i])
	}
	return chosen, nil
}

// offer lists what each name would install.
func offer(env cli.Env, rows []Peer) {
	finder := MachineFinder(env, "")
	found, _ := finder.Found()
	t := term.Table{Header: []string{"NAME", "ALLOCATOR", "INSTALLED FROM", "STATE"}, Spare: []int{1}}
	for _, p := range rows {
		from, state := "crate "+p.Crate+" "+p.Version, "-"
		if p.Package != "" {
			from = "package " + p.Package
		}
		if p.present(found, finder.LibraryDirs) {
			state = "installed"
		}
		t.Rows = append(t.Rows, []string{p.Name, p.Title, from, state})
	}
	width, _ := term.Width(env.Stdout)
	t.Write(env.Stdout, width)
}

func install(ctx context.Context, env cli.Env, dir string, chosen []Peer) (err error) {
	var packages, crates []string
	for _, p := range chosen {
		if p.Package != "" {
			packages = append(packages, p.Package)
		} else {
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
