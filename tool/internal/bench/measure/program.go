package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"

	"golang.org/x/sys/unix"
)

// Usage holds the CPU time, memory and faults of a finished program. The kernel reports every figure at
// the program's end, so the figures are exact for short programs too.
type Usage struct {
	Wall, User, Sys float64 // seconds
	PeakRSS         float64 // bytes: of the program, or of the largest child that it waited for
	Faults          float64 // minor and major page faults
	Switches        float64 // context switches, voluntary and not
}

// launcher is a shell that forks, prints the number of its child, and leaves it waiting for a byte on descriptor 3.
//
// The kernel includes in a program's peak RSS the memory of its process before exec. A child of this
// process would start with this process's megabytes; the child of a small shell starts with almost none.
// The clock starts at the byte, when the shell has nothing more to do.
//
// A second child holds descriptor 4, whose other end only this process has: should this process die, it kills the
// group.
const launcher = `( exec 4<&- 5>&-; read go <&3; exec 3<&-; %s exec "$@" ) >&5 2>&5 & program=$!
( trap '' HUP INT QUIT TERM; exec 3<&- 5>&-; read end <&4; kill -KILL 0 ) >/dev/null 2>&1 & echo $program $!`

// held keeps a launched program waiting, and guards it.
type held struct {
	gate, lifeline *os.File
	guard          int
	before         procfs.Stat // of the shell that becomes the program
	shell          []string    // its command line
	begun          time.Time
}

// release ends the guard. The group was killed.
func (h *held) release() {
	if h == nil || h.guard == 0 {
		return
	}
	h.gate.Close()
	h.lifeline.Close()
	_, _ = unix.Wait4(h.guard, nil, 0, nil) // it was killed; its status is of no use
	h.guard = 0
}

// Adopt makes this process the parent of the programs that launchers leave behind. It must be called
// once before Launch.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of measured programs: %w", err)
	}
	return nil
}

// Launch prepares a program to run with variables added to its environment alone. It begins with Begin, and must be
// stopped in any case.
func Launch(ctx context.Context, proc procfs.FS, spec Spec, variables []string) (*Process, error) {
	log, err := os.Create(spec.Log)
	if err != nil {
		return nil, fmt.Errorf("make the log of %s: %w", spec.Path, err)
	}
	defer log.Close()
	p := &Process{log: spec.Log, done: make(chan struct{}), held: &held{}}
	if err := p.fork(spec, variables, log); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		ended(p.pid)
		p.over = time.Now()
		p.err = p.wait()
	}()
	if p.held.before, err = settled(ctx, proc, p.pid); err != nil {
		p.Stop(0)
		return nil, fmt.Errorf("launch %s: %w", spec.Path, err)
	}
	p.held.shell, _ = proc.Cmdline(p.pid) // it is asleep
	return p, nil
}

// fork runs the shell, which leaves the program and its guard to this process.
func (p *Process) fork(spec Spec, variables []string, log *os.File) error {
	gate, opener, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer gate.Close()
	far, lifeline, err := os.Pipe()
	if err != nil {
		opener.Close()
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer far.Close()
	p.held.gate, p.held.lifeline = opener, lifeline
	script := fmt.Sprintf(launcher, exports(variables))
	shell := exec.Command("/bin/sh", append([]string{"-c", script, "sh", spec.Path}, spec.Args...)...)
	shell.Env, shell.Dir = spec.Env, spec.Dir
	shell.ExtraFiles = []*os.File{gate, far, log}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: spec.Credential}
	text, err := shell.Output()
	if err == nil {
		_, err = fmt.Sscan(string(text), &p.pid, &p.held.guard)
	}
	if err != nil {
		opener.Close()
		lifeline.Close() // which ends the forked processes
		return fmt.Errorf("launch %s: %w", spec.Path, err)
	}
	p.group = shell.Process.Pid
	return nil
}

func exports(variables []string) string {
	var b strings.Builder
	for _, v := range variables {
		key, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&b, "export %s='%s'; ", key, strings.ReplaceAll(value, "'", `'\''`))
	}
	return b.String()
}

// settled waits until the child sleeps in its read, so that its faults before that can be subtracted.
func settled(ctx context.Context, proc procfs.FS, pid int) (procfs.Stat, error) {
	for range 1000 {
		st, err := proc.Stat(pid)
		if err != nil || st.State == "S" {
			return st, err
		}
		select {
		case <-ctx.Done():
			return st, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return procfs.Stat{}, errors.New("the shell never waited for its start; is /bin/sh a POSIX shell?")
}

// Begin lets a launched program run.
func (p *Process) Begin() error {
	p.held.begun = time.Now()
	if _, err := p.held.gate.Write([]byte("\n")); err != nil {
		return fmt.Errorf("start the program: %w", err)
	}
	return nil
}

// AwaitExec returns once the shell has become the program, so that what is read of the process is the program's; or once
// it has ended.
func (p *Process) AwaitExec(ctx context.Context, proc procfs.FS) {
	for !p.Ended() && ctx.Err() == nil {
		words, err := proc.Cmdline(p.pid)
		if err != nil || len(words) > 0 && !slices.Equal(words, p.held.shell) { // it has none in the middle of exec
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// wait reaps a launched program that has ended and returns its status.
func (p *Process) wait() error {
	var status unix.WaitStatus
	for {
		_, err := syscall.Wait4(p.pid, (*syscall.WaitStatus)(&status), 0, &p.usage)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("wait for the program: %w", err)
		}
	}
	switch {
	case status.Signaled():
		return errors.New("died of " + unix.SignalName(status.Signal()))
	case status.ExitStatus() != 0:
		return fmt.Errorf("exit status %d", status.ExitStatus())
	}
	return nil
}

// Usage waits for the end of a launched program and returns its usage.
func (p *Process) Usage() Usage {
	u := UsageOf(p.Rusage())
	u.Wall = p.over.Sub(p.held.begun).Seconds()
	u.Faults -= float64(p.held.before.MinorFaults + p.held.before.MajorFaults)
	return u
}

// UsageOf converts the kernel's accounting of a process.
func UsageOf(u syscall.Rusage) Usage {
	return Usage{
		User: seconds(u.Utime), Sys: seconds(u.Stime), PeakRSS: float64(u.Maxrss) * 1024,
		Faults: float64(u.Minflt) + float64(u.Majflt), Switches: float64(u.Nvcsw + u.Nivcsw),
	}
}

func seconds(tv syscall.Timeval) float64 { return float64(tv.Sec) + float64(tv.Usec)/1e6 }

// Program runs a program to its end with the given variables added to its environment, and returns its
// usage and its output.
func Program(ctx context.Context, proc procfs.FS, spec Spec, variables []string) (Usage, string, error) {
	p, err := Launch(ctx, proc, spec, variables)
	if err != nil {
		return Usage{}, "", err
	}
	defer p.Stop(0)
	if err := p.Begin(); err != nil {
		return Usage{}, "", err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(0)
		return Usage{}, "", fmt.Errorf("%s was stopped: %w", spec.Path, ctx.Err())
	}
	printed, err := p.Output()
	if err != nil {
		return Usage{}, "", fmt.Errorf("%s %w", spec.Path, err)
	}
	return p.Usage(), printed, nil
}
