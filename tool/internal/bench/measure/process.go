// Package measure starts a program or a server, sends load to it, and reads its time and memory from the
// kernel. A Session does this under each allocator, round by round. It leaves no process behind.
package measure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Spec is a program to start.
type Spec struct {
	Path string
	Args []string
	Env  []string
	Dir  string
	Log  string // the file that takes its output
	// Credential is the user that runs the program; nil is the user of this process.
	Credential *syscall.Credential
}

// A Process is a started program in a separate process group.
type Process struct {
	pid   int
	group int
	log   string
	done  chan struct{}
	// The fields below are valid after done is closed.
	err   error // how it failed, if it did
	usage syscall.Rusage
	over  time.Time
	held  *held // of a launched program; nil of a server
}

// Start starts spec. The kernel kills the program should this process die without stopping it.
func Start(spec Spec) (*Process, error) {
	log, err := os.Create(spec.Log)
	if err != nil {
		return nil, fmt.Errorf("make the log of %s: %w", spec.Path, err)
	}
	defer log.Close()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = spec.Env, spec.Dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: spec.Credential}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	p := &Process{pid: cmd.Process.Pid, group: cmd.Process.Pid, log: spec.Log, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		ended(p.pid)
		p.over = time.Now()
		p.err = cmd.Wait()
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			p.usage = *usage
		}
	}()
	return p, nil
}

// ended returns after the child has ended. Unlike a wait, it ignores stops of the child, such as those by
// package cpushare. If the kernel offers no pidfd, it returns immediately and the caller's wait applies.
func ended(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// Rusage returns the kernel's accounting of the ended process, its threads, and the children that it
// waited for.
func (p *Process) Rusage() syscall.Rusage {
	<-p.done
	return p.usage
}

// PID is the process id.
func (p *Process) PID() int { return p.pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop ends the process and its group: by SIGTERM, after grace by SIGKILL. It returns after the process has ended.
func (p *Process) Stop(grace time.Duration) { p.StopBy(syscall.SIGTERM, grace) }

// StopBy is Stop with another signal than SIGTERM.
func (p *Process) StopBy(kind syscall.Signal, grace time.Duration) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.group, kind) // it may just have ended
		select {
		case <-p.done:
		case <-time.After(grace):
		}
	}
	_ = syscall.Kill(-p.group, syscall.SIGKILL) // the rest of the group, usually none
	<-p.done
	p.held.release()
}

// Ended is true once the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Died is the error of a process that ended by itself, with the end of its log.
func (p *Process) Died(name string) error {
	how := "ended by itself"
	if p.err != nil {
		how = "died (" + p.err.Error() + ")"
	}
	return fmt.Errorf("%s %s; the end of its log says: %s", name, how, p.LogTail(5))
}

// Log returns the present content of the program's log.
func (p *Process) Log() (string, error) {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return "", fmt.Errorf("read its log: %w", err)
	}
	return string(data), nil
}

// Output returns all output of an ended process, and an error if the process failed.
func (p *Process) Output() (string, error) {
	<-p.done
	data, err := os.ReadFile(p.log)
	if err != nil {
		return "", fmt.Errorf("read its log: %w", err)
	}
	if p.err != nil {
		return string(data), fmt.Errorf("failed (%w); the end of its log says: %s", p.err, p.LogTail(5))
	}
	return string(data), nil
}

// LogTail is the last lines of the log as one line.
func (p *Process) LogTail(lines int) string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	tail := strings.Join(all[max(0, len(all)-lines):], " | ")
	if tail == "" {
		return "(nothing)"
	}
	return tail
}

// WaitReady calls probe until it succeeds. It returns an error if the process ends or the time limit
// passes.
func (p *Process) WaitReady(ctx context.Context, name string, limit time.Duration, probe func(context.Context) error) error {
	deadline := time.After(limit)
	for {
		last := probe(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			return p.Died(name)
		case <-deadline:
			return fmt.Errorf("%s did not become ready within %v (%w); the end of its log says: %s", name, limit, last, p.LogTail(5))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// FreePort returns a loopback port on which no program listens at present.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// Output runs a program to its end and returns what it printed. When ctx ends, its group is killed.
func Output(ctx context.Context, path string, args, env []string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("%s failed (%w): %s", path, err, complaint(string(exit.Stderr), string(out)))
	}
	if err != nil {
		return "", fmt.Errorf("run %s: %w", path, err)
	}
	return string(out), nil
}

// complaint is what a program that failed said: some print errors on standard output alone.
func complaint(stderr, stdout string) string {
	const most = 2000 // bytes of standard output: its end
	if text := strings.TrimSpace(stderr); text != "" {
		return text
	}
	text := strings.TrimSpace(stdout)
	return strings.ToValidUTF8(text[max(0, len(text)-most):], "")
}

// Lines runs a program to its end and passes on each line of its output as soon as it is printed. If the
// program fails, the error contains its standard error. If ctx ends, the process group is killed.
func Lines(ctx context.Context, path string, args, env []string, line func(string)) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	var last string
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		if text := scanner.Text(); strings.TrimSpace(text) != "" {
			last = text
		}
		line(scanner.Text())
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		message := strings.TrimSpace(complaints.String())
		if message == "" {
			message = last
		}
		return fmt.Errorf("%s failed (%w): %.500s", path, err, strings.ReplaceAll(message, "\n", " | "))
	}
	return nil
}

// Clean returns environ without the variables that configure a program's allocator, so that only the
// allocator's own variables apply.
func Clean(environ []string) []string {
	drop := []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "MALLOC_CONF", "GLIBC_TUNABLES"}
	prefixes := []string{"MALLOC_", "MIMALLOC_", "TCMALLOC_", "GRANARY_"}
	var out []string
	for _, entry := range environ {
		key, _, _ := strings.Cut(entry, "=")
		if !matches(key, drop, strings.EqualFold) && !matches(key, prefixes, strings.HasPrefix) {
			out = append(out, entry)
		}
	}
	return out
}

func matches(key string, list []string, test func(a, b string) bool) bool {
	for _, item := range list {
		if test(key, item) {
			return true
		}
	}
	return false
}
