package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ErrNoMemory is the answer for a process that has no memory of its own: a kernel thread, or one that
// has ended and waits for its parent.
var ErrNoMemory = errors.New("it has no memory (a kernel thread, or a process that has ended)")

// PIDs are the processes that exist, ascending.
func (fs FS) PIDs() ([]int, error) {
	dir, err := os.Open(fs.Root)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// Comm is the name the kernel has for the process, at most 15 bytes.
func (fs FS) Comm(pid int) (string, error) {
	text, err := fs.read(pid, "comm")
	return strings.TrimSuffix(text, "\n"), err
}

// Cmdline are the words the process was started with; none for a kernel thread.
func (fs FS) Cmdline(pid int) ([]string, error) { return fs.words(pid, "cmdline") }

// Environ is the environment the process was started with.
func (fs FS) Environ(pid int) ([]string, error) { return fs.words(pid, "environ") }

func (fs FS) words(pid int, name string) ([]string, error) {
	text, err := fs.read(pid, name)
	if err != nil || text == "" {
		return nil, err
	}
	return strings.Split(strings.TrimRight(text, "\x00"), "\x00"), nil
}

// Status are the fields of /proc/PID/status, by name.
func (fs FS) Status(pid int) (map[string]string, error) {
	text, err := fs.read(pid, "status")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			out[name] = strings.TrimSpace(value)
		}
	}
	return out, nil
}

// NumberInside is what the process calls itself: pid, or its number in the innermost PID namespace
// that it belongs to. Files that it names after itself bear that number.
func (fs FS) NumberInside(pid int) int {
	status, err := fs.Status(pid)
	if err != nil {
		return pid
	}
	numbers := strings.Fields(status["NSpid"])
	if len(numbers) == 0 {
		return pid
	}
	inside, err := strconv.Atoi(numbers[len(numbers)-1])
	if err != nil {
		return pid
	}
	return inside
}

// Alive is true for a process that runs, and not for one that has ended and waits for its parent.
func (fs FS) Alive(pid int) bool {
	st, err := fs.Stat(pid)
	return err == nil && !st.Ended()
}

// Gone is true for an error that means that the process has ended.
func Gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// Explain turns an error of reading process pid into a message that says what to do. It names a missing
// right and how to obtain it.
func (fs FS) Explain(pid int, err error) error {
	switch {
	case err == nil:
		return nil
	case Gone(err):
		return fmt.Errorf("there is no process %d: it has ended, or belongs to another PID namespace; `granary ps` lists those there are", pid)
	case errors.Is(err, ErrNoMemory):
		return fmt.Errorf("process %d has no memory: it is a kernel thread, or has ended and waits for its parent; name another", pid)
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("process %d may not be read: %s", pid, fs.missingRight(pid))
	}
	return err
}

// missingRight says why the kernel refuses access to the memory of a process.
func (fs FS) missingRight(pid int) string {
	status, err := fs.Status(pid)
	owner := strings.Fields(status["Uid"])
	if err == nil && len(owner) > 0 && owner[0] != strconv.Itoa(os.Geteuid()) {
		return fmt.Sprintf("it belongs to user %s and you are user %d; run this as that user or as root, or give the command CAP_SYS_PTRACE (`why` needs CAP_DAC_READ_SEARCH, too)", owner[0], os.Geteuid())
	}
	if scope := fs.Sysctl("kernel/yama/ptrace_scope"); scope != "" && scope != "0" {
		return fmt.Sprintf("kernel.yama.ptrace_scope is %s; run this as root, give the command CAP_SYS_PTRACE, or `sysctl kernel.yama.ptrace_scope=0`", scope)
	}
	if os.Geteuid() == 0 {
		return "it has rights that even this root lacks: it is outside this container, or CAP_SYS_PTRACE is withheld; run this on the host, or in a container with that capability"
	}
	return "it has more rights than you have, or made itself not dumpable; run this as root, or give the command CAP_SYS_PTRACE"
}

// Sysctl is the value of a kernel setting, or "" where it cannot be read.
func (fs FS) Sysctl(name string) string {
	data, err := os.ReadFile(fs.Root + "/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Exe is the path of the program the process runs.
func (fs FS) Exe(pid int) (string, error) {
	path, err := os.Readlink(fs.Path(pid, "exe"))
	if err != nil {
		return "", fmt.Errorf("find the program of process %d: %w", pid, err)
	}
	return path, nil
}
