package measure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"

	"golang.org/x/sys/unix"
)

// Usage is what a finished program took, seen from outside.
type Usage struct {
	Wall, User, Sys float64 // seconds
	PeakRSS         float64 // bytes
	Faults          float64 // minor and major page faults
	Switches        float64 // context switches, wished and forced
	Output          string
}

// launcher is a shell that forks, says the number of its child, and leaves it waiting for a byte.
//
// The kernel counts into a program's peak RSS what its process occupied before exec. A child of this
// process would start with our megabytes; the child of a small shell starts with almost none. And the
// clock starts at the byte, when the shell has nothing more to do.
const launcher = `( read go <&3; exec 3<&-; %s exec "$@" ) & echo $!`

// Adopt makes this process the parent of the programs that launchers leave behind. It must be called
// once before Measure.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of measured programs: %w", err)
	}
	return nil
}

// Program runs a program to its end with variables added to its environment alone.
func Program(ctx context.Context, proc procfs.FS, spec Spec, variables []string) (Usage, error) {
	gate, opener, err := os.Pipe()
	if err != nil {
		return Usage{}, fmt.Errorf("make a pipe: %w", err)
	}
	defer opener.Close()
	m := &measurement{name: spec.Path, proc: proc}
	defer m.reap()
	err = m.launch(spec, variables, gate)
	gate.Close()
	if err != nil {
		return Usage{}, err
	}
	before, err := m.settled(ctx)
	if err != nil {
		return Usage{}, err
	}
	start := time.Now()
	if _, err := opener.Write([]byte("\n")); err != nil {
		return Usage{}, fmt.Errorf("let %s go: %w", spec.Path, err)
	}
	return m.wait(ctx, start, before)
}

type measurement struct {
	name   string
	proc   procfs.FS
	shell  *exec.Cmd
	pid    int
	output bytes.Buffer
	pipes  chan struct{} // closed when all output is read
	reaped bool
}

func (m *measurement) launch(spec Spec, variables []string, gate *os.File) error {
	var exports strings.Builder
	for _, v := range variables {
		key, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&exports, "export %s='%s'; ", key, strings.ReplaceAll(value, "'", `'\''`))
	}
	script := fmt.Sprintf(launcher, exports.String())
	m.shell = exec.Command("/bin/sh", append([]string{"-c", script, "sh", spec.Path}, spec.Args...)...)
	m.shell.Env, m.shell.Dir = spec.Env, spec.Dir
	m.shell.ExtraFiles = []*os.File{gate}
	m.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	reader, writer, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	m.shell.Stdout, m.shell.Stderr = writer, writer
	err = m.shell.Start()
	writer.Close()
	if err != nil {
		reader.Close()
		return fmt.Errorf("start the launcher of %s: %w", m.name, err)
	}
	lines := bufio.NewReader(reader)
	first, err := lines.ReadString('\n')
	m.pid, _ = strconv.Atoi(strings.TrimSpace(first))
	m.pipes = make(chan struct{})
	go func() {
		defer close(m.pipes)
		defer reader.Close()
		_, _ = io.Copy(&m.output, lines) // a broken pipe ends the output like its end does
	}()
	if err := errors.Join(err, m.shell.Wait()); err != nil || m.pid == 0 {
		return fmt.Errorf("launch %s: %w", m.name, err)
	}
	return nil
}

// settled waits until the child sleeps in its read, so that its faults so far can be subtracted.
func (m *measurement) settled(ctx context.Context) (procfs.Stat, error) {
	for range 1000 {
		st, err := m.proc.Stat(m.pid)
		if err != nil || st.State == "S" {
			return st, err
		}
		select {
		case <-ctx.Done():
			return st, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return procfs.Stat{}, fmt.Errorf("the launcher of %s never waited for its start; is /bin/sh a POSIX shell?", m.name)
}

func (m *measurement) wait(ctx context.Context, start time.Time, before procfs.Stat) (Usage, error) {
	stop := context.AfterFunc(ctx, m.killGroup)
	defer stop()
	var status unix.WaitStatus
	var ru unix.Rusage
	for {
		_, err := unix.Wait4(m.pid, &status, 0, &ru)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return Usage{}, fmt.Errorf("wait for %s: %w", m.name, err)
		}
	}
	wall := time.Since(start).Seconds()
	m.reaped = true
	m.killGroup() // whatever it left behind holds the pipe open
	<-m.pipes
	if ctx.Err() != nil {
		return Usage{}, fmt.Errorf("%s was stopped: %w", m.name, ctx.Err())
	}
	if status.Signaled() || status.ExitStatus() != 0 {
		return Usage{}, fmt.Errorf("%s %s; it printed: %s", m.name, describe(status), m.tail())
	}
	return Usage{
		Wall: wall, User: seconds(ru.Utime), Sys: seconds(ru.Stime),
		PeakRSS:  float64(ru.Maxrss) * 1024,
		Faults:   float64(ru.Minflt) + float64(ru.Majflt) - float64(before.MinorFaults+before.MajorFaults),
		Switches: float64(ru.Nvcsw + ru.Nivcsw),
		Output:   m.output.String(),
	}, nil
}

func describe(status unix.WaitStatus) string {
	if status.Signaled() {
		return "died of " + unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("ended with exit code %d", status.ExitStatus())
}

func seconds(tv unix.Timeval) float64 { return float64(tv.Sec) + float64(tv.Usec)/1e6 }

func (m *measurement) tail() string {
	lines := strings.Split(strings.TrimSpace(m.output.String()), "\n")
	if text := strings.Join(lines[max(0, len(lines)-5):], " | "); text != "" {
		return text
	}
	return "(nothing)"
}

func (m *measurement) killGroup() {
	if m.shell != nil && m.shell.Process != nil {
		_ = syscall.Kill(-m.shell.Process.Pid, syscall.SIGKILL) // the group may be gone already
	}
}

// reap leaves nothing behind after an error.
func (m *measurement) reap() {
	if m.reaped || m.pid == 0 {
		return
	}
	m.killGroup()
	_, _ = unix.Wait4(m.pid, nil, 0, nil) // it was killed; its status says nothing more
}
