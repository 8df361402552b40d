package leaks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/term"

	pprofile "github.com/google/pprof/profile"
)

// command runs a program and lists what it had not freed when it ended. The program writes a profile at
// its exit; the command returns the program's exit code.
func (o options) command(ctx context.Context, env cli.Env, rate uint64, args []string) error {
	library, err := preload.Library(o.lib, env.Getenv("GRANARY_LIB"), env.Exe)
	if err != nil {
		return err
	}
	path, err := preload.Resolve(args[0], env.Getenv("PATH"))
	if err == nil {
		err = preload.Check(path, library, preload.CurrentCredentials(), env.Getenv("PATH"))
	}
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "granary-leaks")
	if err != nil {
		return fmt.Errorf("keep the profiles: %w", err)
	}
	defer os.RemoveAll(dir)
	child := exec.Command(path, args[1:]...)
	child.Args[0] = args[0]
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, env.Stdout, env.Stderr
	child.Env = sampling(env, library, filepath.Join(dir, "heap"), rate)
	runErr := child.Run()
	var exit *exec.ExitError
	if runErr != nil && !errors.As(runErr, &exit) {
		return fmt.Errorf("start %s: %w", path, runErr)
	}
	if err := o.leftBehind(ctx, env, dir, rate); err != nil {
		return err
	}
	if exit != nil {
		return &cli.ExitError{Code: max(exit.ExitCode(), 1)}
	}
	return nil
}

// sampling adds to an environment that a program samples from its start, and writes a profile at its
// end; what the user set stays.
func sampling(env cli.Env, library, prefix string, rate uint64) []string {
	out := preload.Environ(env.Environ, library)
	for _, row := range [][2]string{
		{"GRANARY_CONF", fmt.Sprintf("prof:true,prof_sample:%d", rate)},
		{"MALLOC_CONF", "prof_final:true,prof_prefix:" + prefix},
	} {
		value := row[1]
		if before := env.Getenv(row[0]); before != "" {
			value = before + "," + value
		}
		out = append(out, row[0]+"="+value)
	}
	return out
}

// leftBehind reports each process that wrote a profile: the command, and what it started.
func (o options) leftBehind(ctx context.Context, env cli.Env, dir string, rate uint64) error {
	files, err := filepath.Glob(filepath.Join(dir, "heap.*"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("the program wrote no profile at its end: it was killed, left by _exit or exec, or the library is older than this command")
	}
	slices.Sort(files)
	for _, file := range files {
		p, err := profile.Load(file)
		if err != nil {
			return err
		}
		symbol.NewFinder(env.Getenv).Symbolize(ctx, p)
		if o.json {
			if err := term.JSON(env.Stderr, left(p)); err != nil {
				return err
			}
			continue
		}
		o.writeLeft(env.Stderr, p, rate)
	}
	return nil
}

// A Left is what one stack had in use at the end.
type Left struct {
	Bytes   int64    `json:"bytes"`
	Objects int64    `json:"objects"`
	Stack   []string `json:"stack"`
}

func left(p *pprofile.Profile) []Left {
	bytes, objects := profile.Index(p, profile.InUseSpace), profile.Index(p, profile.InUseObjects)
	out := []Left{}
	for _, e := range profile.Entries(p, bytes) {
		if e.Values[bytes] > 0 {
			out = append(out, Left{e.Values[bytes], e.Values[objects], e.Stack})
		}
	}
	return out
}

func (o options) writeLeft(w io.Writer, p *pprofile.Profile, rate uint64) {
	bytes, objects := profile.Index(p, profile.InUseSpace), profile.Index(p, profile.InUseObjects)
	var total int64
	for _, s := range p.Sample {
		total += s.Value[bytes]
	}
	name := "the program"
	if len(p.Mapping) > 0 {
		name = filepath.Base(p.Mapping[0].File)
	}
	fmt.Fprintf(w, "%s had not freed about %s when it ended (one sample in %s; whether it could still reach them, LeakSanitizer tells):\n", name, term.Bytes(uint64(total)), term.Bytes(rate))
	width, _ := term.Width(w)
	profile.WriteText(w, p, bytes, objects, o.limit, width)
}
