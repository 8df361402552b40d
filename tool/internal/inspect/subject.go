package inspect

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// SubjectUsage is what commands say when the argument is missing.
const SubjectUsage = "the PID or the name of a process, or the path of a core file"

// A Subject is an opened process or core file.
type Subject struct {
	*Target
	// Title names it in a line: "process 812 (redis-server), Granary 0.1.0".
	Title string
}

// OpenSubject opens the process or the core file that arg names: a number or a name is a process. The
// error says what cannot be read; for a process under another allocator, it names that allocator.
func OpenSubject(proc procfs.FS, arg string) (*Subject, error) {
	if IsCore(arg) {
		return openCore(arg)
	}
	pid, err := ProcessOrCore(proc, arg)
	if err != nil {
		return nil, err
	}
	target, err := Open(pid)
	if err != nil {
		return nil, explainSubject(proc, pid, err)
	}
	name, err := proc.Comm(pid)
	if err != nil {
		return nil, errors.Join(proc.Explain(pid, err), target.Close())
	}
	title := fmt.Sprintf("process %d (%s), Granary %s", pid, name, target.Version)
	if target.Published {
		title += ", statistics that it publishes once a second"
	}
	return &Subject{Target: target, Title: title}, nil
}

// ProcessOrCore is FindProcess where a core file could have been named, too.
func ProcessOrCore(proc procfs.FS, arg string) (int, error) {
	if strings.Contains(arg, "/") || strings.HasPrefix(arg, "core.") {
		return 0, cli.Usagef("there is no core file %s: give its path, or the PID or the name of a process", arg)
	}
	return FindProcess(proc, arg)
}

// IsCore is true for the path of a file.
func IsCore(arg string) bool {
	info, err := os.Stat(arg)
	return strings.Trim(arg, "0123456789") != "" && err == nil && info.Mode().IsRegular()
}

func openCore(path string) (*Subject, error) {
	target, err := OpenCore(path)
	if err != nil {
		return nil, err
	}
	return &Subject{Target: target, Title: fmt.Sprintf("core file %s, Granary %s", path, target.Version)}, nil
}

func explainSubject(proc procfs.FS, pid int, err error) error {
	if errors.Is(err, ErrNoRights) {
		return err
	}
	running, lookErr := AllocatorOf(proc, pid)
	switch {
	case lookErr != nil:
		return proc.Explain(pid, lookErr)
	case errors.Is(err, ErrNotGranary) && running.Name != Granary:
		remedy := "start it with `granary run -- COMMAND`"
		if running.How == Static {
			remedy = "as no library can be preloaded into a static program, link it with granary.o"
		}
		return fmt.Errorf("process %d does not run Granary but %s: %s; `granary why %d` explains what the kernel reports", pid, running.Describe(), remedy, pid)
	}
	return err
}
