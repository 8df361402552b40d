package trace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
	xterm "golang.org/x/term"
)

// Record is the command `granary record`.
var Record = cli.Command{
	Name: "record", Usage: "[-o FILE] [options] [--] CMD [ARG...] | PID", Takes: cli.Programs,
	Summary: "record every allocation of a program",
	About: `The program runs on its own allocator, whichever that is, with a recorder loaded before it. The trace holds sizes,
alignments, threads, times and the order of all calls, but no contents. It remains readable if the program or this
command is killed. ` + "`granary trace info`" + ` summarises it. For a running process, the recorder is loaded into it, on x86-64 and
with the rights of a debugger; a program started with --wait only waits for ` + "`granary record PID`" + ` to switch the
recording on. docs/guides/record-and-replay.md explains it.`,
	Examples: []cli.Example{
		{Line: "record -o trace.gtr -- redis-server --port 7000", Does: "record a server until it ends"},
		{Line: "record --sample 100 -- ./app", Does: "one object in 100, with all of its life"},
		{Line: "record --sample 100 --stacks -- ./app", Does: "and where it is allocated, for `granary trace top --stacks`"},
		{Line: "record --max-bytes 64MiB --keep-last -- ./app", Does: "the last 64 MiB of a program that runs for weeks"},
		{Line: "record --seconds 30 -o /tmp/trace.gtr 812", Does: "record a running process for 30 seconds"},
		{Line: "record --written -- ./app", Does: "also how much of its large buffers it writes"},
		{Line: "record --follow -- make", Does: "also record the processes that it starts, each into FILE.PID"},
	},
	Exits:     preload.Exits,
	WrongCode: cli.CodeToolFailed,
	Setup:     setupRecord,
}

type recordOptions struct {
	out, lib, max string
	sample        uint64
	follow, raw   bool
	last          bool
	stacks        bool
	written       bool
	anonymous     bool
	wait          bool
	seconds       float64
}

func setupRecord(flags *pflag.FlagSet) cli.Action {
	flags.SetInterspersed(false) // options after the program are the program's
	o := &recordOptions{}
	flags.StringVarP(&o.out, "out", "o", "trace.gtr", "write the trace to this `file`")
	flags.StringVar(&o.lib, "lib", "", "the recorder's `library` (default: "+preload.RecorderName+" beside this command, or installed)")
	flags.StringVar(&o.max, "max-bytes", "1GiB", "end the recording, not the program, when the file has this `size`")
	flags.BoolVar(&o.last, "keep-last", false, "overwrite the oldest calls when the file has the size of --max-bytes, and go on recording")
	flags.Uint64Var(&o.sample, "sample", 1, "record all calls on one address in `N`")
	flags.BoolVar(&o.stacks, "stacks", false, "record the stack of each allocation; with --sample this costs little")
	flags.BoolVar(&o.written, "written", false, "record how much of each object of 16 KiB or more is written, so that a replay writes as much")
	flags.BoolVar(&o.follow, "follow", false, "record forked children and the programs that they start as well, each into FILE.PID")
	flags.BoolVar(&o.anonymous, "anonymous", false, "omit the names of the program and its allocator, and the process id, from the trace")
	flags.BoolVar(&o.wait, "wait", false, "record nothing until `granary record PID` switches the recording on")
	flags.Float64Var(&o.seconds, "seconds", 0, "record a running process for so many `seconds` (default: until Ctrl-C)")
	flags.BoolVar(&o.raw, "raw", false, "leave the trace as the recorder writes it, larger")
	return func(ctx context.Context, env cli.Env, args []string) error {
		if pid, is := process(env, args); is {
			if err := o.attach(ctx, env, pid, flags.Changed("out")); err != nil {
				return preload.Failed(err)
			}
			return nil
		}
		code, err := o.run(env, args)
		if err != nil {
			return preload.Failed(err)
		}
		if code != 0 {
			return &cli.ExitError{Code: code}
		}
		return nil
	}
}

// run returns the program's exit code.
func (o *recordOptions) run(env cli.Env, args []string) (int, error) {
	cmd, err := o.command(env, args)
	if err != nil {
		return 0, err
	}
	stop := o.packLive(o.out)
	code, err := supervise(cmd)
	stop()
	if err != nil {
		return 0, err
	}
	return code, o.finish(env)
}

// packLive packs the recordings at path, and of children, while they grow. A recording that keeps its last events gives its chunks again, which
// only the recorder can.
func (o *recordOptions) packLive(path string) (stop func()) {
	if o.last {
		return func() {}
	}
	return packLive(func() []string { return append([]string{path}, o.further()...) })
}

// command checks everything that can be wrong before the program starts.
func (o *recordOptions) command(env cli.Env, args []string) (*exec.Cmd, error) {
	if len(args) == 0 {
		return nil, errors.New("say which program to run: granary record [options] [--] CMD [ARG...]")
	}
	most, err := o.check()
	if err != nil {
		return nil, err
	}
	library, err := preload.Recorder(o.lib, env.Exe)
	if err != nil {
		return nil, err
	}
	path, err := preload.Resolve(args[0], env.Getenv("PATH"))
	if err == nil {
		err = preload.Check(path, library, preload.CurrentCredentials(), env.Getenv("PATH"))
	}
	if err == nil {
		o.out, err = filepath.Abs(o.out)
	}
	if err == nil {
		err = o.makeRoom()
	}
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, env.Stdout, env.Stderr
	cmd.Env = append(preload.Environ(env.Environ, library), o.variables(most)...)
	return cmd, nil
}

// check returns the limit of the file.
func (o *recordOptions) check() (most uint64, err error) {
	if o.sample == 0 {
		return 0, errors.New("--sample 0 records nothing: give 1 for every object, or N for one in N")
	}
	if o.anonymous && o.raw {
		return 0, errors.New("--anonymous drops the names when the trace is packed: leave --raw out")
	}
	if most, err = cli.ParseSize(o.max); err != nil {
		return 0, err
	}
	if most < 1<<20 {
		return 0, fmt.Errorf("--max-bytes %s is too small: give 1 MiB or more", o.max)
	}
	return most, nil
}

func (o *recordOptions) variables(most uint64) []string {
	out := []string{"GRANARY_RECORD=" + o.out, "GRANARY_RECORD_MAX_BYTES=" + strconv.FormatUint(most, 10), "GRANARY_RECORD_SAMPLE=" + strconv.FormatUint(o.sample, 10)}
	if o.follow {
		out = append(out, "GRANARY_RECORD_FOLLOW=1")
	}
	if o.last {
		out = append(out, "GRANARY_RECORD_KEEP_LAST=1")
	}
	if o.stacks {
		out = append(out, "GRANARY_RECORD_STACKS=1")
	}
	if o.written {
		out = append(out, "GRANARY_RECORD_WRITTEN=1")
	}
	if o.wait {
		out = append(out, "GRANARY_RECORD_WAIT=1")
	}
	return out
}

// makeRoom removes older traces, and refuses to remove anything else.
func (o *recordOptions) makeRoom() error {
	for _, path := range o.further() {
		if err := removeTrace(path); err != nil {
			return err
		}
	}
	_, err := os.Lstat(o.out)
	if errors.Is(err, fs.ErrNotExist) {
		file, err := os.OpenFile(o.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return unwritable(err)
		}
		file.Close()
		return os.Remove(o.out)
	}
	return removeTrace(o.out)
}

// unwritable says why no trace can be made. It wraps nothing: a missing folder would be a missing program.
func unwritable(err error) error {
	var at *fs.PathError
	switch {
	case !errors.As(err, &at):
		return errors.New("the trace cannot be written: " + err.Error())
	case errors.Is(at.Err, fs.ErrNotExist):
		return fmt.Errorf("the trace cannot be written: there is no folder %s", filepath.Dir(at.Path))
	}
	return fmt.Errorf("the trace %s cannot be written: %s", at.Path, at.Err.Error())
}

func removeTrace(path string) error {
	old, err := Open(path)
	if err != nil {
		return fmt.Errorf("-o names a file that is no trace, which is not replaced: %w", err)
	}
	old.Close()
	return os.Remove(path)
}

// further are the traces of further processes, FILE.PID.
func (o *recordOptions) further() []string {
	if !o.follow {
		return nil
	}
	paths, _ := filepath.Glob(o.out + ".[0-9]*") // a pattern that cannot be parsed has no file
	return paths
}

// supervise passes signals on, and returns the exit code as a shell would.
func supervise(cmd *exec.Cmd) (int, error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	terminal := xterm.IsTerminal(int(os.Stdin.Fd()))
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if terminal && (s == syscall.SIGINT || s == syscall.SIGQUIT) {
				continue // the terminal has sent it to the program as well
			}
			_ = cmd.Process.Signal(s) // it may have ended
		case err := <-ended:
			return exitCode(cmd.ProcessState, err)
		}
	}
}

func exitCode(state *os.ProcessState, err error) (int, error) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return state.ExitCode(), nil
}

// finish packs what was recorded, and says what that is.
func (o *recordOptions) finish(env cli.Env) error {
	for _, path := range append([]string{o.out}, o.further()...) {
		if err := o.finishFile(env, path); err != nil {
			return err
		}
	}
	return nil
}

func (o *recordOptions) finishFile(env cli.Env, path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if o.wait {
			return nil
		}
		return fmt.Errorf("the program wrote no trace: it is static, dropped LD_PRELOAD, or could not create %s", path)
	}
	if o.raw {
		fmt.Fprintf(env.Stderr, "granary: recorded into %s\n", path)
		return nil
	}
	packed, err := PackFile(path, o.anonymous)
	if err != nil {
		return err
	}
	t, err := Open(path)
	if err != nil {
		return err
	}
	defer t.Close()
	note := ""
	if t.Header.Overwritten > 0 {
		note = fmt.Sprintf("; they are the last %s, %s before were overwritten", term.Duration(t.Header.Length), term.Duration(t.Header.Overwritten))
	}
	if t.Header.Stopped != "" {
		note += "; the recording ended early: " + t.Header.Stopped
	}
	term.Line(env.Stderr, "granary: recorded %s calls of %s in %s (%s)%s", term.Count(packed.Events),
		term.Counted(packed.Threads, "thread"), path, term.Bytes(uint64(t.Header.Size)), note)
	return nil
}
