// Package subject opens what a command line names: a process by its PID, or a core file by its path.
package subject

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"granary/tool/internal/allocators"
	"granary/tool/internal/cli"
	"granary/tool/internal/inspect"
	"granary/tool/internal/procfs"
)

// Usage is what commands say when the argument is missing.
const Usage = "the PID of a process, or the path of a core file"

// A Subject is an opened process or core file.
type Subject struct {
	*inspect.Target
	// Title names it in a line: "process 812 (redis-server), Granary 0.1.0".
	Title string
}

// Open opens what arg names: digits are a process. What cannot be read is explained in one sentence;
// of a process that runs another allocator, the sentence names it.
func Open(proc procfs.FS, arg string) (*Subject, error) {
	if IsCore(arg) {
		return openCore(arg)
	}
	pid, err := cli.PID(arg)
	if err != nil {
		return nil, err
	}
	target, err := inspect.Open(pid)
	if err != nil {
		return nil, explain(proc, pid, err)
	}
	name, err := proc.Comm(pid)
	if err != nil {
		return nil, errors.Join(proc.Explain(pid, err), target.Close())
	}
	title := fmt.Sprintf("process %d (%s), Granary %s", pid, name, target.Version)
	if target.Published {
		title += ", by what it publishes once a second"
	}
	return &Subject{Target: target, Title: title}, nil
}

// IsCore is true for the path of a file.
func IsCore(arg string) bool {
	info, err := os.Stat(arg)
	return strings.Trim(arg, "0123456789") != "" && err == nil && info.Mode().IsRegular()
}

func openCore(path string) (*Subject, error) {
	target, err := inspect.OpenCore(path)
	if err != nil {
		return nil, err
	}
	return &Subject{Target: target, Title: fmt.Sprintf("core file %s, Granary %s", path, target.Version)}, nil
}

func explain(proc procfs.FS, pid int, err error) error {
	if errors.Is(err, inspect.ErrNoRights) {
		return err
	}
	running, lookErr := allocators.Of(proc, pid)
	switch {
	case lookErr != nil:
		return proc.Explain(pid, lookErr)
	case errors.Is(err, inspect.ErrNotGranary) && running.Name != allocators.Ours:
		way := "start it with `granary run -- COMMAND`"
		if running.How == allocators.Static {
			way = "as no library can be preloaded into a static program, link it with granary.o"
		}
		return fmt.Errorf("process %d does not run Granary but %s: %s; `granary why %d` says what can be seen from outside", pid, running.Describe(), way, pid)
	}
	return err
}
